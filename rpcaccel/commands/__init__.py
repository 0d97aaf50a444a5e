"""The commands of the program, a file each: read the arguments, build, run."""

// Figures for the eye: three significant digits, a thin unit, and "–" where there is no data (never 0).

export const NONE = "–";
const THIN = "\u202f"; // narrow no-break space

/** Three significant digits without an exponent: 12.4, 1.80, 0.042, 686. */
export function digits(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  // Where rounding adds a digit, one less is shown: 9.996 is 10.0.
  if (size >= 99.95) return String(Math.round(value));
  if (size < 0.001) return "<0.001";
  return value.toFixed(size >= 9.995 ? 1 : size >= 0.09995 ? 2 : 3);
}

function scaled(value, steps) {
  let chosen = steps[0];
  // 999.6 would be shown as 1000: the next unit begins where rounding does.
  for (const step of steps) if (Math.abs(value) >= step[0] * 0.9995) chosen = step;
  return [digits(value / chosen[0]), chosen[1]];
}

const PERCENT = `${THIN}%`;
const absent = (value) => !Number.isFinite(value);

/** Each returns [figure, unit]; the unit brings the space before it along. */
export function count(value) {
  if (absent(value)) return [NONE, ""];
  if (Number.isInteger(value) && Math.abs(value) < 1000) return [String(value), ""];
  return scaled(value, [
    [1, ""],
    [1e3, "k"],
    [1e6, "M"],
    [1e9, "G"],
    [1e12, "T"],
  ]);
}

export function rate(value) {
  if (absent(value)) return [NONE, ""];
  const [figure, unit] = scaled(value, [
    [1, ""],
    [1e3, "k"],
    [1e6, "M"],
    [1e9, "G"],
  ]);
  return [figure, `${unit}/s`];
}

export function duration(seconds) {
  if (absent(seconds)) return [NONE, ""];
  return scaled(seconds, [
    [1e-6, `${THIN}µs`],
    [1e-3, `${THIN}ms`],
    [1, `${THIN}s`],
  ]);
}

export function percent(ratio) {
  if (absent(ratio)) return [NONE, ""];
  const value = ratio * 100;
  // What is not all is never shown as 100 %.
  if (value >= 99.95 && value < 100) return [">99.9", PERCENT];
  return [digits(value), PERCENT];
}

/** Money in a currency of three letters. */
export function money(value, currency) {
  if (absent(value)) return [NONE, ""];
  const [figure, unit] =
    value < 0.01 && value > 0
      ? ["<0.01", ""]
      : value < 1000
        ? [value.toFixed(2), ""]
        : scaled(value, [
            [1e3, "k"],
            [1e6, "M"],
            [1e9, "G"],
          ]);
  return [figure, `${unit}${THIN}${currency}`];
}

export function bytes(value) {
  if (absent(value)) return [NONE, ""];
  return scaled(value, [
    [1, `${THIN}B`],
    [1e3, `${THIN}kB`],
    [1e6, `${THIN}MB`],
    [1e9, `${THIN}GB`],
    [1e12, `${THIN}TB`],
    [1e15, `${THIN}PB`],
  ]);
}

export function bytesPerSecond(value) {
  const [figure, unit] = bytes(value);
  return [figure, unit && `${unit}/s`];
}

/** A time span in words: "1.2 s", "31 s", "4 min 10 s", "2 h 5 min", "3 d 4 h". */
export function span(seconds) {
  if (absent(seconds)) return NONE;
  if (seconds < 9.95) return `${Math.max(0, seconds).toFixed(1)}${THIN}s`; // clocks of two machines are never one
  const whole = Math.round(seconds);
  const pair = (a, unit, b, small) => `${a}${THIN}${unit}${b ? ` ${b}${THIN}${small}` : ""}`;
  if (whole < 60) return `${whole}${THIN}s`;
  if (whole < 3600) return pair(Math.floor(whole / 60), "min", whole % 60, "s");
  if (whole < 86400) return pair(Math.floor(whole / 3600), "h", Math.floor((whole % 3600) / 60), "min");
  return pair(Math.floor(whole / 86400), "d", Math.floor((whole % 86400) / 3600), "h");
}

/** The while that figures look back: "minute" for about one, or before any is known, else its length. */
export function lately(seconds) {
  if (absent(seconds)) return "minute";
  return seconds > 55 && seconds < 70 ? "minute" : span(seconds);
}

/** A block number in groups of three. */
export function block(number) {
  return absent(number) ? NONE : String(number).replace(/\B(?=(\d{3})+$)/g, THIN);
}

/** "12.4 ms" of ["12.4", " ms"]. */
export function joined([figure, unit]) {
  return figure + unit;
}

export function plural(number, one, many = `${one}s`) {
  return `${joined(count(number))} ${number === 1 ? one : many}`;
}

const CLOCKS = {
  seconds: new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" }),
  minutes: new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }),
  date: new Intl.DateTimeFormat([], { day: "numeric", month: "short" }),
  day: new Intl.DateTimeFormat([], {
    day: "numeric",
    month: "short",
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
  }),
};

/** Time of day in the viewer's zone. */
export function clock(unixSeconds, to = "seconds") {
  return CLOCKS[to].format(unixSeconds * 1000);
}

/** A time, with its day when that is not today. */
export function moment(unixSeconds) {
  const today = new Date().toDateString() === new Date(unixSeconds * 1000).toDateString();
  return clock(unixSeconds, today ? "seconds" : "day");
}

/** "a", "a and b", "a, b and c" */
export const listed = (words, last = "and") =>
  words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} ${last} ${words.at(-1)}`;

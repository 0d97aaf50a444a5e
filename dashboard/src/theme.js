// The colours, before anything is painted: a page that turns dark after it was white hurts in a dark room. No module:
// those wait.

{
  const kept = () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null; // the browser keeps nothing for this page
    }
  };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let theme = ["light", "dark"].includes(kept()) ? kept() : "system";
  const show = () => {
    document.documentElement.dataset.theme = theme === "system" ? (dark.matches ? "dark" : "light") : theme;
  };
  show();
  globalThis.theme = {
    get chosen() {
      return theme;
    },
    dark,
    choose: (wanted) => {
      theme = wanted;
      show();
      try {
        localStorage.setItem("theme", wanted);
      } catch {
        // then it is chosen for as long as the page is open
      }
    },
    show,
  };
}

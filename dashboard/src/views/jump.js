// Links to the groups of a long view, which stay in sight: the one that is read is marked, those that are hidden have none.

import { h, setAttribute } from "../dom.js";

const READ = "-30% 0px -60% 0px"; // the part of the window that counts as being read

const slug = (title) => title.toLowerCase().replace(/[^a-z]+/g, "-");

/** `home`: the address of the view; `groups` in `show(groups)`: [{ title, element }], each with a heading that takes the focus. */
export function jumpList(home, label) {
  const element = h("nav", { class: "jump", "aria-label": label });
  let links = new Map();
  const mark = (read) => {
    for (const [group, link] of links) setAttribute(link, "aria-current", group === read ? "location" : null);
    const link = links.get(read);
    if (link)
      element.scrollTo({ left: link.offsetLeft - element.offsetLeft - element.clientWidth / 2 + link.offsetWidth / 2 });
  };
  const reading = new IntersectionObserver(
    (entries) => {
      const seen = entries.find((entry) => entry.isIntersecting);
      if (seen) mark([...links.keys()].find((group) => group.element === seen.target));
    },
    { rootMargin: READ },
  );
  const go = (group) => {
    const covered = document.querySelector(".strip").offsetHeight + element.offsetHeight + 8;
    scrollTo({ top: group.element.getBoundingClientRect().top + scrollY - covered });
    group.element.querySelector("h3").focus({ preventScroll: true });
    mark(group);
  };
  return {
    element,
    show: (groups) => {
      reading.disconnect();
      links = new Map(
        groups.map((group) => [
          group,
          h("a", { href: `${home}/${slug(group.title)}`, onclick: () => go(group) }, group.title),
        ]),
      );
      element.replaceChildren(...links.values());
      for (const { element: one } of groups) reading.observe(one);
    },
    /** Only what is there can be gone to. */
    update: () =>
      links.forEach((link, { element: one }) => {
        link.hidden = one.hidden;
      }),
    /** Go to the group that an address names, if one does. */
    at: (place) => {
      const group = [...links.keys()].find(({ title }) => slug(title) === place);
      if (group) go(group);
    },
    gone: () => reading.disconnect(),
  };
}

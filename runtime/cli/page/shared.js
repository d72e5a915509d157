// What all pages share, those of runs and those of the profiler.

const find = (selector, root = document) => root.querySelector(selector);

/** An element with properties and children; text is always set as text, never as markup. */
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

/** Text in which controls and what turns the direction of a line can be seen. */
function visible(text) {
  return text.replace(/[\u0000-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Colours of the style sheet by name, and the button that chooses between light and dark. */
const Theme = {
  names: ["page", "card", "ink", "soft", "line", "faint", "accent"],
  isDark: false,
  listeners: [],
  refresh() {
    const root = document.documentElement;
    const style = getComputedStyle(root);
    for (const name of this.names) this[name] = style.getPropertyValue(`--${name}`).trim();
    this.isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    for (const listener of this.listeners) listener();
  },
  setUp() {
    const choices = [["", "Auto", "as the system"], ["light", "Light", "light"], ["dark", "Dark", "dark"]];
    let at = 0;
    const button = find("#theme");
    button.onclick = () => {
      at = (at + 1) % choices.length;
      const [theme, text, label] = choices[at];
      if (theme) document.documentElement.dataset.theme = theme;
      else delete document.documentElement.dataset.theme;
      button.textContent = text;
      button.setAttribute("aria-label", `Colours: ${label}`);
      this.refresh();
    };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.refresh());
    this.refresh();
  },
};

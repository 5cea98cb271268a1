"use strict";
(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const kept = (act) => { try { return act(localStorage); } catch { return null; } };
  const isDark = () => (root.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
  root.classList.add("js");
  const chosen = kept((storage) => storage.getItem("rankfall-theme"));
  if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;

  function startTheme() {
    const button = document.getElementById("theme");
    const tell = () => { button.textContent = isDark() ? "light page" : "dark page"; };
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      kept((storage) => storage.setItem("rankfall-theme", root.dataset.theme));
      tell();
    });
    dark.addEventListener("change", tell);
    tell();
  }

  function startCopy() {
    for (const button of document.querySelectorAll("[data-copy]")) {
      button.addEventListener("click", async () => {
        const done = await copied(button.dataset.copy, button.previousElementSibling);
        button.textContent = done ? "copied" : "selected";
        setTimeout(() => { button.textContent = "copy"; }, 1600);
      });
    }
  }

  // Where the clipboard is closed to a local file, the command is selected instead.
  async function copied(text, shown) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      getSelection().selectAllChildren(shown);
      return false;
    }
  }

  function startFilters() {
    const form = document.querySelector(".controls");
    const { q, verdict, paper, differs, short, shown } = form.elements;
    const claims = [...document.querySelectorAll(".claim")].map((element) => ({
      element,
      text: [element, element.closest(".experiment").querySelector("header"),
        element.closest(".paper").querySelector("header")]
        .map((part) => part.textContent).join(" ").replace(/\s+/g, " ").toLowerCase(),
    }));
    const reset = form.querySelector("[type=reset]");
    const groups = [...document.querySelectorAll(".experiment, .paper")];
    const cells = [...document.querySelectorAll("[data-choice]")];
    const count = (n) => (n === 1 ? "1 claim" : `${n} claims`);

    const state = () => {
      const pairs = [...new FormData(form)].filter(([, value]) => value.trim());
      return new URLSearchParams(pairs).toString();
    };

    function show() {
      const words = q.value.toLowerCase().split(/\s+/).filter(Boolean);
      let number = 0;
      for (const { element, text } of claims) {
        const fits = (!verdict.value || element.dataset.verdict === verdict.value)
          && (!paper.value || element.dataset.paper === paper.value)
          && (!differs.checked || "differs" in element.dataset)
          && words.every((word) => text.includes(word));
        element.hidden = !fits;
        number += fits;
      }
      for (const group of groups) group.hidden = !group.querySelector(".claim:not([hidden])");
      reset.hidden = !state();
      document.querySelector(".none").hidden = number > 0;
      root.classList.toggle("short", short.checked);
      shown.value = number === claims.length ? `all ${count(number)}` : `${number} of ${count(claims.length)}`;
      const choice = new URLSearchParams({
        ...(paper.value && { paper: paper.value }), ...(verdict.value && { verdict: verdict.value }),
      }).toString();
      for (const cell of cells) {
        if (choice && cell.dataset.choice === choice) cell.setAttribute("aria-current", "true");
        else cell.removeAttribute("aria-current");
      }
    }

    // The hash is either the filters (with "=") or the name of a place on the page.
    function read() {
      const hash = location.hash.slice(1);
      if (hash && !hash.includes("=")) return reach(document.getElementById(decodeURIComponent(hash)));
      const asked = new URLSearchParams(hash);
      q.value = asked.get("q") ?? "";
      for (const select of [verdict, paper]) {
        const value = asked.get(select.name) ?? "";
        select.value = [...select.options].some((option) => option.value === value) ? value : "";
      }
      differs.checked = asked.has("differs");
      short.checked = asked.has("short");
      show();
    }

    function reach(place) {
      if (place?.closest("[hidden]")) clear();
      show();
      place?.scrollIntoView();
    }

    function clear() {
      for (const field of [q, verdict, paper]) field.value = "";
      differs.checked = false;
    }

    function write() {
      const filters = state();
      history.replaceState(null, "", filters ? `#${filters}` : location.pathname + location.search);
      show();
    }

    for (const cell of cells) {
      cell.href = `#${cell.dataset.choice || "all="}`;
      cell.addEventListener("click", () => setTimeout(() => form.scrollIntoView()));
    }
    form.addEventListener("input", write);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(write));
    addEventListener("hashchange", read);
    addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target.closest?.("input, select, textarea")) return;
      event.preventDefault();
      q.focus();
    });
    read();
  }

  addEventListener("DOMContentLoaded", () => {
    startTheme();
    startCopy();
    startFilters();
  });
})();

// Before anything is drawn: the theme that was chosen. Without one the system's holds.
(() => {
  const chosen = localStorage.getItem("diskless-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();

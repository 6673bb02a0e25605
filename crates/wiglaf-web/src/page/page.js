"use strict";
// Fetches the changing part of the page again, while somebody can see it.
const part = document.getElementById("part");
let waits = false;

async function renew() {
  if (waits || document.hidden) return;
  waits = true;
  try {
    const answer = await fetch("/part", { cache: "no-store", signal: AbortSignal.timeout(10000) });
    if (answer.status === 401) location.assign("/");
    // The server has escaped all text in it, and the page's policy runs no script but this one.
    else if (answer.ok) part.innerHTML = await answer.text();
    part.classList.toggle("stale", !answer.ok);
  } catch {
    part.classList.add("stale");
    const age = document.getElementById("age");
    if (age) age.textContent = "the server does not answer: is wiglaf web still running?";
  } finally {
    waits = false;
  }
}

if (part) {
  setInterval(renew, 3000);
  document.addEventListener("visibilitychange", renew);
}

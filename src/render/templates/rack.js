(function () {
  "use strict";
  var main = document.getElementById("main"), live = document.getElementById("live");
  if (!window.EventSource || !window.fetch) return;
  var busy = false, again = false, later = 0;
  function say(text, how) { live.textContent = text; live.className = how; }
  // What a person is at is not taken away: marked text, an open document and where it stands, the link that has the focus.
  function put(text) {
    var open = main.querySelector("details[open] pre"), top = open && open.scrollTop;
    var focus = main.contains(document.activeElement) && document.activeElement.getAttribute("href");
    main.innerHTML = text;
    var after = main.querySelector("details");
    if (open && after) { after.open = true; after.querySelector("pre").scrollTop = top; }
    if (focus) Array.prototype.forEach.call(main.querySelectorAll("a"), function (link) {
      if (link.getAttribute("href") === focus) link.focus({ preventScroll: true });
    });
  }
  function marks() {
    var marked = window.getSelection();
    return marked && !marked.isCollapsed && main.contains(marked.anchorNode);
  }
  function load() {
    if (busy) { again = true; return; }
    if (marks()) { if (!later) later = setTimeout(function () { later = 0; load(); }, 2000); return; }
    busy = true;
    // A page whose address has a user and a token before the host has them in its base, and fetch refuses that.
    fetch(location.origin + main.dataset.part, { credentials: "same-origin", cache: "no-store" })
      .then(function (answer) { return answer.ok ? answer.text() : Promise.reject(answer.status); })
      .then(function (text) {
        put(text);
        say("live", "on");
      })
      .catch(function () { say("not current", "off"); })
      .then(function () { busy = false; if (again) { again = false; load(); } });
  }
  var events = new EventSource(location.origin + "/live");
  events.onopen = function () { say("live", "on"); };
  events.onmessage = load;
  events.onerror = function () { say("connection lost, trying again", "off"); };
})();

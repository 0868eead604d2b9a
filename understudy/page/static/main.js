/** The page of a run: connects its source, its history and its views, and draws a frame when something has changed. */

import { Catalogue, DETAILS, partitionOf } from "#catalogue";
import { ClientsView } from "#clients";
import { ClusterView } from "#cluster";
import { Commands } from "#commands";
import { Completeness } from "#completeness";
import { byId, h, setAttribute, setText } from "#dom";
import { Evidence, foldPanels, partitionShown, present, splitPartition } from "#evidence";
import { GridView } from "#grid";
import { GroupsView } from "#groups";
import { History } from "#history";
import { InsideView } from "#inside";
import { KEYS, listenToKeys } from "#keys";
import { linkTo, readLink } from "#link";
import { LogsView } from "#logs";
import { MomentTable } from "#moment_table";
import { MissingView } from "#missing";
import { Player } from "#player";
import { Slider } from "#slider";
import { openSource } from "#source";
import { Story, announce } from "#story";
import { Timeline } from "#timeline";
import { clock, count } from "#words";
import { ZnodeTree } from "#znode_tree";

const LINK_EVERY_MS = 400;
const GROWTH_EVERY_MS = 250;
const FRAME_MS = 100;
const ASK_AGAIN_MS = 500;
/** The width of a window, in pixels, below which only two strips are shown at first. */
const NARROW = 560;

class RunPage {
  constructor(source) {
    this._source = source;
    this._run = source.run;
    this._catalogue = new Catalogue();
    this._history = new History({
      run: this._run.run, observe: (record) => this._catalogue.add(record),
    });
    this.player = new Player(this._history);
    this.player.isLive = this._run.is_live;
    this._completeness = new Completeness(this._run);
    this._missing = new MissingView(this._completeness, this._catalogue, this.player, (at) => {
      this._show({ at, us: null });
    });
    const parts = [this._history, this._catalogue, this.player, this._completeness];
    this.timeline = new Timeline(byId("strips"), ...parts.slice(1));
    this._slider = new Slider(byId("strips"), ...parts);
    this._grid = new GridView(this.player, () => { this.player.version += 1; }, () => this._isInDoubt());
    this._logs = new LogsView(this._catalogue, () => { this.player.version += 1; });
    this._groups = new GroupsView();
    this._story = new Story(byId("sentences"), byId("why"), ...parts);
    this.commands = new Commands(source, this._run, () => this._grid.chosen);
    this._cluster = new ClusterView(
      this._history, this.player, (broker) => this.commands.open(broker), this._completeness,
      (row) => this._missing.evidence(row),
    );
    this._table = new MomentTable(() => this._cluster.columns);
    this._clients = new ClientsView(this._history, this._catalogue, this.player);
    this._inside = new InsideView(this._history, this.player, this._completeness);
    this._tree = new ZnodeTree(this._history, this.player, this._completeness);
    this.evidence = new Evidence(this.player, (report) => {
      if (isFramed()) {
        window.parent.postMessage(report, "*");
      }
    });
    /** Whether the page is shown to a room, from some distance: `?present` in its address. */
    this.isPresented = new URLSearchParams(location.search).has("present");
    document.body.classList.toggle("present", this.isPresented);
    this.timeline.isSlim = isFramed() || this.isPresented || window.innerWidth < NARROW;
    this._drawn = -1;
    this._linked = { text: "", at: 0 };
    this._awaited = null;
    /** The parts that are shown with the record that is awaited, and the partitions of which the first is drawn. */
    this._wanted = { show: [], partitions: [] };
    this._isShown = false;
    /** Whether all records are there, but for those that a live run will have. */
    this._isRead = false;
    this._grownAt = -Infinity;
    /** How long the run lasts as the lesson around this page knows it, and since when. */
    this._known = { lasts: -1, at: -Infinity };
    this._listen();
  }

  /** Read the records that are there, then those that come. The page is shown as soon as it has its first moment. */
  async load() {
    const wanted = readLink(location.hash);
    setText(byId("run-title"), this._run.title);
    document.title = `${this._run.title} · Understudy`;
    this._drawFindings();
    if (this._run.is_kraft) {
      this._cluster.nameQuorum();
    }
    this.timeline.show(this._run.window);
    setText(byId("live"), this._run.is_live ? "live" : "ended");
    for await (const text of this._source.chunks()) {
      this._history.append(text);
      setText(byId("status"), `${count(this._history.length, "record")} read`);
      if (this._isShown) {
        this._grow();
      } else if (this._has(wanted)) {
        this._begin(wanted);
        await frameOrPause();
      }
    }
    this._isRead = true;
    this._drawStatus();
    this._drawCompleteness();
    if (this._isShown) {
      this._grownAt = -Infinity;
      this._grow();
    } else {
      this._begin(wanted);
    }
    if (this._run.is_live) {
      this._source.events(
        (text) => this._follow(text),
        () => { this.player.isLive = false; this._drawStatus(); this._judge(); },
        (state) => { setText(byId("live"), state === "open" ? "live" : "reconnecting …"); },
      );
    } else if (this._run.missing === null) {
      this._judge();
    }
    document.body.dataset.ready = "true";
    this.evidence.bring();
    this._obeyLesson();
  }

  /** Add the records of a live run. A process that has started may have another clock. */
  _follow(text) {
    const { incarnations } = this._catalogue;
    this._history.append(text);
    this.player.grew();
    this._showAwaited();
    if (this._catalogue.incarnations > incarnations) {
      this._refresh();
    }
  }

  /** Show the verdict on the records of a run that has ended, as soon as the server has it. */
  async _judge() {
    while (await this._refresh() && this._run.missing === null) {
      await new Promise((done) => { setTimeout(done, ASK_AGAIN_MS); });
    }
  }

  /** Show what has changed in the facts of the run. Returns whether the server has answered. */
  async _refresh() {
    try {
      await this._source.refresh();
    } catch {
      return false;
    }
    this._completeness.set(this._run);
    this._drawFindings();
    this._drawCompleteness();
    this.player.version += 1;
    return true;
  }

  /** Whether the moment that the page shows first has been read, wherever the run ends. */
  _has({ at, us }) {
    if (this._history.length === 0) {
      return false;
    }
    if (at !== null) {
      return this._catalogue.numberOf(...at) >= 0;
    }
    if (us !== null) {
      return this._history.timeAt(this._history.length - 1) > this._catalogue.first + us;
    }
    return !this._run.is_live && (this._run.window !== null || this._firstFault() !== undefined);
  }

  _begin(wanted) {
    this._isShown = true;
    this._show(wanted);
    document.body.dataset.shown = "true";
    requestAnimationFrame(() => this._frame());
  }

  /** Show that more has been read, from time to time: drawing takes time from reading. */
  _grow() {
    this.player.grew();
    this._showAwaited();
    const now = performance.now();
    if (now - this._grownAt >= GROWTH_EVERY_MS) {
      this._grownAt = now;
      this.player.version += 1;
    }
  }

  /** Show the moments that a lesson asks for, where this page is a frame of one. */
  _obeyLesson() {
    if (!isFramed()) {
      return;
    }
    document.body.classList.add("framed");
    window.addEventListener("message", (event) => {
      if (event.source === window.parent) {
        this._obey(event.data ?? {});
      }
    });
    window.parent.postMessage({ isReady: true }, "*");
    this._reportLength();
  }

  _obey({ at, show = [], partitions = [], stretch, isPresented }) {
    if (at !== undefined) {
      foldPanels();
      this._wanted = { show, partitions: partitions.map(splitPartition) };
    }
    if (Array.isArray(at)) {
      this._awaited = at;
      this._showAwaited();
    } else if (at === "edge") {
      this._awaited = null;
      this.player.toEdge();
    } else if (Number.isFinite(stretch)) {
      this.timeline.showStretch(stretch);
    }
    if (isPresented === true) {
      present();
    }
  }

  /** Report to the lesson around this page how long the run lasts: it gives the runs that it compares one scale. */
  _reportLength() {
    const now = performance.now();
    const { lasts } = this.timeline;
    if (lasts !== this._known.lasts && now - this._known.at >= GROWTH_EVERY_MS) {
      this._known = { lasts, at: now };
      window.parent.postMessage({ lasts }, "*");
    }
  }

  /** Show the record that a lesson or a link asks for, now or as soon as it has come. */
  _showAwaited() {
    const at = this._awaited;
    const hasAll = this._isRead && !this.player.isLive;
    if (at !== null && (hasAll || this._catalogue.numberOf(...at) >= 0)) {
      this._awaited = null;
      this._show({ at, us: null, ...this._wanted });
    }
  }

  /** Show a moment: a record, or a time. A link has one partition, and a lesson some that may not exist yet. */
  _show({ at, us, partition = null, partitions = null, show = [] }) {
    this.player.grew();
    const n = at === null ? -1 : this._catalogue.numberOf(...at);
    if (n >= 0) {
      this.player.toRecord(n + 1);
    } else if (us !== null) {
      this.player.toTime(this._catalogue.first + us);
    } else if (this._run.is_live) {
      this.player.toEdge();
    } else if (this._run.window !== null) {
      this.player.toTime(this._run.window[0]);
    } else {
      this.player.toRecord(this._beginning());
    }
    const proved = partitionShown(show);
    if (partition !== null) {
      this._grid.choose(...partition);
    } else if (partitions !== null) {
      this._grid.chooseFirst(partitions, this._history.stateAt(this.player.n));
    } else if (proved !== null) {
      this._grid.choose(...splitPartition(proved));
    }
    this._tree.want(show);
    this.evidence.show(show);
    this.player.version += 1;
    if (at !== null && n < 0 && !this._isRead) {
      this._awaited = at;
      this._wanted = { show, partitions, partition };
    } else if (at !== null && n < 0) {
      setText(byId("status"), `The link names a record that this run does not have: ${at.join(".")}`);
    }
  }

  /** A finished run is first shown just before its first fault on a broker, where there is something to see. */
  _beginning() {
    return this._firstFault()?.n + 1 || this._history.length;
  }

  _firstFault() {
    return this._catalogue.lanes.faults.find(({ isQuiet }) => !isQuiet);
  }

  _frame() {
    requestAnimationFrame(() => this._frame());
    this.player.tick();
    const isRunning = this.player.isLive && this.player.isAtEdge;
    const isChanged = isRunning || this._drawn !== this.player.version;
    if (isChanged) {
      this._drawn = this.player.version;
      this._draw();
    }
    if (isChanged || this._isRead) {
      this.timeline.draw();
    }
    if (this._known.lasts >= 0) {
      this._reportLength();
    }
    if (isChanged) {
      this._cluster.drawLines();
      this.evidence.draw();
    }
  }

  /** Draw the moment. What measures the page comes last: the browser then computes its layout once in a frame. */
  _draw() {
    const { n, us } = this.player;
    const state = this._history.stateAt(n);
    this._choose(state);
    this._cluster.draw(state, us, this._run.session_timeout_ms, this._isInDoubt());
    const { chosen } = this._grid;
    const committed = this._groups.committed(state, chosen);
    this._logs.draw(state, chosen, us, this._completeness, this._cluster, committed);
    this._groups.draw(state, chosen, this._cluster);
    this._table.draw(chosen);
    this._clients.draw(state, chosen, us, this._cluster.isReachable, this.evidence.names);
    this._missing.draw(us);
    this._inside.draw(state, us);
    if (!this._run.is_kraft) {
      this._tree.draw(state, us, this._isInDoubt());
    }
    this._story.draw();
    this._drawTime(n, us, state);
    this._grid.draw(state);
    this._story.scroll();
    this._writeLink(n);
  }

  /** Choose the partition of the record that is shown, as long as the viewer has chosen none. */
  _choose(state) {
    const { n } = this.player;
    const isMoving = this.player.isPlaying || this.player.isLive && this.player.isAtEdge;
    this._grid.suggest(state, n > 0 && !isMoving ? partitionOf(this._history.recordAt(n - 1)) : null);
  }

  _drawTime(n, us, state) {
    const { player } = this;
    const isAtLiveEdge = player.isLive && player.isAtEdge;
    setText(byId("clock"), clock(Math.round(us - this._catalogue.first)));
    setText(byId("position"), `record ${n.toLocaleString("en")} of ${this._history.length.toLocaleString("en")}`);
    setText(byId("speed"), `×${player.speed}`);
    setText(byId("play"), player.isPlaying || isAtLiveEdge ? "❚❚" : "▶");
    setAttribute(byId("play"), "aria-label", player.isPlaying || isAtLiveEdge ? "pause" : "play");
    setAttribute(byId("edge"), "aria-pressed", String(player.isAtEdge));
    setAttribute(byId("all-strips"), "aria-pressed", String(!this.timeline.isSlim));
    const fault = state.last_fault && `last fault: ${state.last_fault}`;
    setText(byId("step"), [state.step, fault].filter(Boolean).join(" · "));
    this._slider.draw();
    const isSaidAround = isFramed() && this.evidence.names.length > 0; // by the lesson, with its own words
    if (!player.isPlaying && !isAtLiveEdge && !this._slider.hasFocus && !isSaidAround) {
      announce(byId("now"), n > 0 ? this._history.recordAt(n - 1) : null, this._catalogue.first);
    }
  }

  _drawStatus() {
    setAttribute(document.body, "data-live", String(this.player.isLive));
    setText(byId("live"), this.player.isLive ? "live" : "ended");
    setText(byId("status"), "");
  }

  _drawFindings() {
    const { findings, findings_count: all } = this._run;
    const more = all - findings.length;
    setAttribute(byId("findings"), "hidden", all === 0);
    byId("findings").lastElementChild.replaceChildren(
      ...findings.map(({ text }) => h("li", {}, text)),
      ...(more > 0 ? [h("li", {}, `and ${count(more, "more finding")}`)] : []),
    );
  }

  _drawCompleteness() {
    this._missing.list(this._run.clocks_note);
  }

  /** Whether numbers that are counted from the state of the cluster may be wrong at this moment. */
  _isInDoubt() {
    return this._completeness.isInDoubt(this.player.us, this._catalogue.lanes.reigns);
  }

  _writeLink(n) {
    const now = performance.now();
    const isMoving = this.player.isPlaying || this.player.isLive && this.player.isAtEdge;
    if (isFramed() || isMoving || now - this._linked.at < LINK_EVERY_MS) {
      return;
    }
    const text = this._link(n);
    if (text !== this._linked.text) {
      this._linked = { text, at: now };
      history.replaceState(null, "", text);
    }
  }

  _link(n) {
    return linkTo(n > 0 ? this._history.recordAt(n - 1) : null, this._grid.chosen, this.evidence.names);
  }

  copyLink() {
    if (isFramed()) {
      return;
    }
    const address = new URL(this._link(this.player.n), location.href).href;
    history.replaceState(null, "", this._link(this.player.n));
    navigator.clipboard?.writeText(address).then(
      () => setText(byId("status"), "The link is copied."),
      () => setText(byId("status"), address),
    );
  }

  /** Show the next or previous sentence of the story. */
  stepStory(direction) {
    const { story } = this._catalogue;
    const index = story.countBelow(direction > 0 ? this.player.n : this.player.n - 1) - (direction > 0 ? 0 : 1);
    if (index >= 0 && index < story.length) {
      this.player.toRecord(story.at(index) + 1);
    }
  }

  stepFault(direction) {
    const numbers = this._catalogue.lanes.faults.map(({ n }) => n + 1);
    const found = direction > 0
      ? numbers.find((n) => n > this.player.n)
      : numbers.findLast((n) => n < this.player.n);
    if (found !== undefined) {
      this.player.toRecord(found);
    }
  }

  /** Show all strips, or only reigns, faults and fences. */
  toggleStrips() {
    this.timeline.isSlim = !this.timeline.isSlim;
    this.player.version += 1;
  }

  _listen() {
    const on = (id, action) => byId(id).addEventListener("click", action);
    on("play", () => this.player.toggle());
    on("next", () => this.player.toRecord(this.player.n + 1));
    on("previous", () => this.player.toRecord(this.player.n - 1));
    on("next-sentence", () => this.stepStory(1));
    on("previous-sentence", () => this.stepStory(-1));
    on("edge", () => this.player.toEdge());
    on("faster", () => this.player.changeSpeed(1));
    on("slower", () => this.player.changeSpeed(-1));
    on("all-strips", () => this.toggleStrips());
    on("zoom-in", () => this.timeline.zoom(2));
    on("zoom-out", () => this.timeline.zoom(0.5));
    on("cluster-commands", () => this.commands.open(null));
    on("copy-link", () => this.copyLink());
    on("open-help", () => byId("help").showModal());
    on("help-close", () => byId("help").close());
    on("theme", () => {
      changeTheme();
      this.player.version += 1;
    });
    byId("keys").append(...KEYS.map(([, key, what]) => h("li", {}, h("kbd", {}, key), ` ${what}`)));
    byId("detail").append(...DETAILS.map((detail) => h("option", {}, detail)));
    byId("detail").addEventListener("input", (event) => {
      this._catalogue.detail = event.target.value;
      this.player.version += 1;
    });
    for (const id of ["grid-filter", "grid-topic"]) {
      byId(id).addEventListener("input", () => { this.player.version += 1; });
    }
    byId("grid").addEventListener("scroll", () => this._grid.drawAgain());
    window.addEventListener("resize", () => { this.player.version += 1; });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.player.version += 1; });
    window.addEventListener("hashchange", () => this._show(readLink(location.hash)));
    listenToKeys(this);
  }
}

/** Lets the browser draw a frame; a page that is not visible has none. */
function frameOrPause() {
  return new Promise((done) => {
    requestAnimationFrame(() => setTimeout(done));
    setTimeout(done, FRAME_MS);
  });
}

/** A frame of a lesson, or of a notebook, has no address of its own. */
function isFramed() {
  return window.parent !== window;
}

function changeTheme() {
  const dark = byId("dark");
  dark.media = matchMedia(dark.media).matches ? "not all" : "all";
}

try {
  await new RunPage(await openSource()).load();
} catch (error) {
  setText(byId("status"), `The run cannot be shown: ${error.message}`);
  throw error;
}

/** The strips under the page: reigns, faults, fences, leaderless partitions and the life of each broker over time. */

import { Completeness, IN_DOUBT, TESTBEDS } from "#completeness";
import { cleared, sized, themeColour, typeScale } from "#dom";
import { clock, count, fixed, nodeName, whose } from "#words";

const LABELS_WIDTH = 96;
const NARROW_LABELS_WIDTH = 82;
const NARROW = 560;
/** The height of a strip and of the gap below it; in a small window they leave more of it to the cluster. */
const ROOMY = { strip: 18, gap: 4 };
const COMPACT = { strip: 13, gap: 3 };
const LOW = 640;
const AXIS = 18;
const MARK = 5;
const LARGEST_ZOOM_US = 200;
/** The distance of the lines that hatch a stretch in which records are missing. */
const HATCH = 6;
const BROKER = /^broker-\d+$/;

/**
 * Draws the strips, and moves the moment by pointer and wheel.
 *
 * Args:
 *   canvas: fills its parent; this class sets its height.
 *   catalogue: the lanes (`Catalogue`).
 *   player: the moment that is shown.
 *   completeness: the stretches in which records are missing.
 */
export class Timeline {
  constructor(canvas, catalogue, player, completeness = new Completeness()) {
    this._canvas = canvas;
    this._catalogue = catalogue;
    this._player = player;
    this._completeness = completeness;
    /** The part of the run that is shown, in microseconds; null for all of it. */
    this._window = null;
    /** How much of the time since the first record is shown at first, in microseconds; null for all of it. */
    this._stretch = null;
    this._hover = null;
    this._drag = null;
    /** Whether only two strips are shown: reigns, and faults with fences. */
    this.isSlim = false;
    ({ strip: this._strip, gap: this._gap } = ROOMY);
    /** How many CSS pixels a unit of the drawing has; the type of the page is as much larger. */
    this._scale = 1;
    this._drawn = "";
    /** The strips without the moment: a drag changes nothing of them. */
    this._strips = { canvas: document.createElement("canvas"), key: "" };
    canvas.addEventListener("pointerdown", (event) => this._onDown(event));
    canvas.addEventListener("pointermove", (event) => this._onMove(event));
    canvas.addEventListener("pointerup", () => { this._drag = null; });
    canvas.addEventListener("pointercancel", () => { this._drag = null; });
    canvas.addEventListener("pointerleave", () => { this._hover = null; });
    canvas.addEventListener("wheel", (event) => this._onWheel(event), { passive: false });
  }

  /** Show a part of the run, from and to in microseconds; null shows all of it. */
  show(window) {
    this._window = window;
  }

  /** How long the run has lasted, in microseconds. */
  get lasts() {
    return Math.max(this._catalogue.last, this._player.us) - this._catalogue.first;
  }

  /**
   * Show so much of the time since the first record, in microseconds, as a run beside this one shows: more than this
   * run has, or less, as long as the moment is in it.
   */
  showStretch(us) {
    this._stretch = us;
  }

  /** Zoom around the moment: a factor above 1 shows less of the run. */
  zoom(factor, around = this._player.us) {
    const [from, to] = this._range();
    const length = Math.max((to - from) / factor, LARGEST_ZOOM_US);
    const whole = this._whole();
    if (length >= whole[1] - whole[0]) {
      this._window = this._stretch === null ? null : whole;
      return;
    }
    const start = around - (around - from) * (length / (to - from));
    this._window = [start, start + length];
  }

  /** Draw the strips where something of them has changed; call it once for each frame. */
  draw() {
    const { version, us } = this._player;
    const { x, y } = this._hover ?? {};
    const size = [this._canvas.clientWidth, window.innerHeight];
    const shown = [this._catalogue.length, this._completeness.version, this._window, this._stretch, this.isSlim];
    const key = [shown, version, us, x, y, size].join();
    if (key !== this._drawn) {
      this._drawn = key;
      this._draw();
    }
  }

  _draw() {
    const strips = this._stripsShown();
    const isSmall = this._canvas.clientWidth < NARROW || window.innerHeight < LOW;
    ({ strip: this._strip, gap: this._gap } = isSmall ? COMPACT : ROOMY);
    this._scale = typeScale();
    const wanted = `${(AXIS + strips.length * (this._strip + this._gap)) * this._scale}px`;
    if (this._canvas.style.height !== wanted) {
      this._canvas.style.height = wanted;
    }
    const { context, width, height } = sized(this._canvas, this._scale);
    if (width * height === 0) {
      return; // in a frame that is not shown yet, from which nothing can be copied
    }
    const colours = palette();
    this._left = width < NARROW ? NARROW_LABELS_WIDTH : LABELS_WIDTH;
    this._width = Math.max(width - this._left - 8, 1);
    this._drawStrips(strips, width, height, colours);
    context.drawImage(this._strips.canvas, 0, 0, width, height);
    prepare(context, width);
    this._drawMoment(context, colours, AXIS + strips.length * (this._strip + this._gap));
  }

  /**
   * The strips from top to bottom. Each has its label, how it is drawn, the stretches in which records that it is made
   * of are missing, and how much of it these cover; marks that a pointer finds, or that it counts partitions.
   */
  _stripsShown() {
    const { reigns, faults, fences, leaderless } = this._catalogue.lanes;
    const { rows } = this._completeness;
    const ofBrokers = rows.filter(({ node }) => node === "" || BROKER.test(node));
    const ofTestbeds = rows.filter(({ node }) => TESTBEDS.includes(node));
    const all = { missing: ofBrokers, cover: 0, marks: [] };
    const crosses = (context, y, colours) => {
      this._drawMarks(context, y, faults, { colour: colours.fault, quiet: colours.faint }, cross);
    };
    const triangles = (context, y, colours) => {
      this._drawMarks(context, y, fences, { colour: colours.fence, quiet: colours.faint }, triangle);
    };
    const controller = { ...all, label: "controller", draw: (...where) => this._drawReigns(...where, reigns) };
    if (this.isSlim) {
      const draw = (...where) => {
        crosses(...where);
        triangles(...where);
      };
      const missing = [...ofTestbeds, ...ofBrokers];
      return [controller, { ...all, label: "faults, fences", draw, missing, marks: [...faults, ...fences] }];
    }
    return [
      controller,
      { ...all, label: "faults", draw: crosses, missing: ofTestbeds, marks: faults },
      { ...all, label: "fences", draw: triangles, marks: fences },
      { ...all, label: "leaderless", draw: (...where) => this._drawLeaderless(...where, leaderless), isCount: true },
      ...this._lives().map(([node, lane]) => ({
        ...all, label: nodeName(node), draw: (...where) => this._drawLives(...where, lane), cover: 0.6,
        missing: this._completeness.of(node),
      })),
    ];
  }

  _drawStrips(strips, width, height, colours) {
    const size = [width, height, window.devicePixelRatio];
    const { version } = this._completeness;
    const key = JSON.stringify([
      this._catalogue.length, version, this._range(), this._end(), size, colours, this.isSlim,
    ]);
    if (key === this._strips.key) {
      return;
    }
    this._strips.key = key;
    const { context } = cleared(this._strips.canvas, width, height, this._scale);
    prepare(context, width);
    this._drawAxis(context, colours);
    strips.forEach(({ label, draw, missing, cover }, row) => {
      const y = AXIS + row * (this._strip + this._gap);
      context.fillStyle = colours.track;
      context.fillRect(this._left, y, this._width, this._strip);
      draw(context, y, colours);
      this._drawMissing(context, y, missing, cover, colours);
      context.fillStyle = colours.text;
      context.fillText(label, 4, y + this._strip / 2);
    });
  }

  _drawAxis(context, colours) {
    const [from, to] = this._range();
    const step = roundStep((to - from) / Math.max(this._width / 90, 1));
    const start = this._catalogue.first;
    context.fillStyle = colours.faint;
    for (let us = start + Math.ceil((from - start) / step) * step; us <= to; us += step) {
      const x = this._x(us);
      context.fillRect(x, AXIS - 4, 1, 4);
      context.fillText(axisText(us - start, step), x + 3, AXIS / 2);
    }
  }

  _drawReigns(context, y, colours, reigns) {
    for (const reign of reigns) {
      const [left, right] = [this._x(reign.us), this._x(reign.end ?? this._end())];
      const ready = this._x(reign.ready ?? reign.end ?? this._end());
      context.fillStyle = colours.epochs[reign.epoch % colours.epochs.length];
      context.globalAlpha = 0.45;
      this._rect(context, left, y, Math.max(ready, left + 1), this._strip);
      context.globalAlpha = 1;
      this._rect(context, ready, y, Math.max(right, left + 2), this._strip);
      context.fillStyle = colours.onEpoch;
      this._label(context, left, right, y, `${nodeName(reign.node)} · epoch ${reign.epoch}`);
    }
  }

  /** Draw marks by a shape, and before them those of the same lane that are quiet as rings. */
  _drawMarks(context, y, marks, { colour, quiet }, shape) {
    this._drawMarksOf(context, y, marks.filter(({ isQuiet }) => isQuiet), quiet, ring);
    this._drawMarksOf(context, y, marks.filter(({ isQuiet }) => !isQuiet), colour, shape);
  }

  _drawMarksOf(context, y, marks, colour, shape) {
    const [from, to] = this._range();
    context.fillStyle = colour;
    context.strokeStyle = colour;
    context.lineWidth = 2;
    let last = -Infinity;
    for (let index = firstFrom(marks, from); index < marks.length && marks[index].us <= to; index += 1) {
      const x = this._x(marks[index].us);
      if (x - last >= 1) {
        shape(context, x, y + this._strip / 2);
        last = x;
      }
    }
  }

  _drawLeaderless(context, y, colours, lane) {
    const most = Math.max(1, ...lane.map((each) => each.count));
    lane.forEach((each, index) => {
      if (each.count > 0) {
        const left = this._x(each.us);
        const right = this._x(lane[index + 1]?.us ?? this._end());
        const height = Math.max(4, this._strip * each.count / most);
        context.fillStyle = colours.fault;
        context.globalAlpha = 0.75;
        this._rect(context, left, y + this._strip - height, Math.max(right, left + 1), height);
        context.globalAlpha = 1;
        context.fillStyle = colours.text;
        this._label(context, left, right, y, String(each.count));
      }
    });
  }

  _drawLives(context, y, colours, lane) {
    lane.forEach((each, index) => {
      const left = this._x(each.us);
      const right = this._x(lane[index + 1]?.us ?? this._end());
      if (each.life === "running" || each.life === "stopping") {
        context.fillStyle = each.life === "running" ? colours.running : colours.paused;
        this._rect(context, left, y + this._strip * 0.28, right, this._strip * 0.44);
      } else if (each.life === "paused") {
        context.fillStyle = colours.paused;
        for (let x = Math.max(left, this._left); x < Math.min(right, this._left + this._width); x += 6) {
          context.fillRect(x, y + this._strip * 0.16, 3, this._strip * 0.68);
        }
      } else {
        context.fillStyle = colours.fault;
        this._rect(context, left, y + this._strip / 2 - 1, right, 2);
        cross(Object.assign(context, { strokeStyle: colours.fault, lineWidth: 2 }), left, y + this._strip / 2);
      }
    });
  }

  /** The life of each broker, also of those whose records are all missing. */
  _lives() {
    const { lives } = this._catalogue.lanes;
    const unseen = new Set(this._completeness.rows.map(({ node }) => node).filter((node) => BROKER.test(node)));
    const lanes = [...lives, ...[...unseen].filter((node) => !lives.has(node)).map((node) => [node, []])];
    return lanes.sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
  }

  /** Hatch the stretches, over what the strip has there, of which they cover a part. */
  _drawMissing(context, y, missing, cover, colours) {
    let end = -Infinity;
    for (const { from_us: from, until_us: until } of missing) {
      const left = Math.max(this._x(from), this._left, end);
      const right = Math.min(Math.max(this._x(until), left + 2), this._left + this._width);
      if (right > left) {
        hatch(context, left, y, right - left, this._strip, cover, colours);
        end = right;
      }
    }
  }

  _drawMoment(context, colours, height) {
    const x = this._x(this._player.us);
    context.fillStyle = colours.accent;
    context.fillRect(x - 1, 0, 2, height);
    context.beginPath();
    context.arc(x, 5, 5, 0, 2 * Math.PI);
    context.fill();
    if (this._hover !== null) {
      const text = this._hoverText();
      const wide = context.measureText(text).width + 10;
      const left = Math.max(this._left, Math.min(this._hover.x - wide / 2, this._left + this._width - wide));
      context.fillStyle = colours.tip;
      context.fillRect(left, 0, wide, AXIS);
      context.fillStyle = colours.onTip;
      context.fillText(text, left + 5, AXIS / 2);
    }
  }

  _hoverText() {
    const us = this._us(this._hover.x);
    const at = clock(Math.round(us - this._catalogue.first));
    const strip = this._stripsShown()[Math.floor((this._hover.y - AXIS) / (this._strip + this._gap))];
    const under = strip?.marks.filter((mark) => Math.abs(this._x(mark.us) - this._hover.x) <= MARK) ?? [];
    const near = under.find(({ isQuiet }) => !isQuiet) ?? under[0];
    const missing = strip?.missing.filter((each) => each.from_us <= us && us <= each.until_us) ?? [];
    const gap = missing.length === 0 ? "" : ` · records of ${missing.map(whose).join(", ")} are missing`;
    if (near !== undefined) {
      return `${at} · ${near.text}${gap}`;
    }
    if (strip?.isCount) {
      const level = this._catalogue.lanes.leaderless.findLast((each) => each.us <= us)?.count ?? 0;
      const mark = this._completeness.isInDoubt(us, this._catalogue.lanes.reigns) ? IN_DOUBT : "";
      return `${at} · ${count(level, "partition")} without a leader${mark}${gap}`;
    }
    return `${at}${gap}`;
  }

  _rect(context, left, y, right, height) {
    const from = Math.max(left, this._left);
    const to = Math.min(right, this._left + this._width);
    if (to > from) {
      context.fillRect(from, y, to - from, height);
    }
  }

  _label(context, left, right, y, text) {
    const from = Math.max(left, this._left) + 4;
    const to = Math.min(right, this._left + this._width);
    if (context.measureText(text).width + 8 <= to - from + 4) {
      context.fillText(text, from, y + this._strip / 2);
    }
  }

  _whole(length = Math.max(this.lasts, this._stretch ?? 0)) {
    const { first } = this._catalogue;
    const margin = Math.max(length * 0.01, 1000);
    return [first - margin, first + length + margin];
  }

  /** What has not ended lasts until the last record; of a live run, until now. */
  _end() {
    return this._player.isLive ? Math.max(this._catalogue.last, this._player.us) : this._catalogue.last;
  }

  _range() {
    const isInside = this._stretch !== null && this._player.us - this._catalogue.first <= this._stretch;
    return this._window ?? (isInside ? this._whole(this._stretch) : this._whole());
  }

  _x(us) {
    const [from, to] = this._range();
    return this._left + (us - from) / (to - from) * this._width;
  }

  _us(x) {
    const [from, to] = this._range();
    return from + (x - this._left) / this._width * (to - from);
  }

  /** Where a pointer is, in units of the drawing. */
  _at({ offsetX, offsetY }) {
    return { x: offsetX / this._scale, y: offsetY / this._scale };
  }

  _onDown(event) {
    this._canvas.setPointerCapture(event.pointerId);
    this._drag = event.shiftKey || event.button === 1 ? { ...this._at(event), window: this._range() } : {};
    this._onMove(event);
  }

  _onMove(event) {
    this._hover = this._at(event);
    if (this._drag === null) {
      return;
    }
    if (this._drag.window === undefined) {
      this._player.isPlaying = false;
      this._player.toTime(this._us(this._hover.x));
      return;
    }
    const [from, to] = this._drag.window;
    const moved = (this._drag.x - this._hover.x) / this._width * (to - from);
    this._window = [from + moved, to + moved];
  }

  _onWheel(event) {
    event.preventDefault();
    const [from, to] = this._range();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY) && this._window !== null) {
      const moved = event.deltaX / this._scale / this._width * (to - from);
      this._window = [from + moved, to + moved];
    } else {
      this.zoom(Math.exp(-event.deltaY / 300), this._us(this._at(event).x));
    }
  }
}

function prepare(context, width) {
  context.font = `${width < NARROW ? 11 : 12}px system-ui, sans-serif`;
  context.textBaseline = "middle";
}

function palette() {
  const names = {
    text: "--text", faint: "--faint", track: "--track", accent: "--accent", fault: "--fault", fence: "--fence",
    running: "--running", paused: "--paused", tip: "--text", onTip: "--page", onEpoch: "--on-epoch",
  };
  const colours = Object.fromEntries(Object.entries(names).map(([key, name]) => [key, themeColour(name)]));
  return { ...colours, epochs: [0, 1, 2, 3, 4, 5].map((each) => themeColour(`--epoch-${each}`)) };
}

function cross(context, x, y) {
  context.beginPath();
  context.moveTo(x - MARK, y - MARK);
  context.lineTo(x + MARK, y + MARK);
  context.moveTo(x + MARK, y - MARK);
  context.lineTo(x - MARK, y + MARK);
  context.stroke();
}

function ring(context, x, y) {
  context.lineWidth = 1.5;
  context.beginPath();
  context.arc(x, y, MARK - 1, 0, 2 * Math.PI);
  context.stroke();
}

function triangle(context, x, y) {
  context.beginPath();
  context.moveTo(x, y - MARK);
  context.lineTo(x + MARK, y + MARK);
  context.lineTo(x - MARK, y + MARK);
  context.closePath();
  context.fill();
}

/** Hatch a rectangle, and cover what it has by `cover`, from 0 to 1. */
function hatch(context, left, top, width, height, cover, colours) {
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.fillStyle = colours.track;
  context.globalAlpha = cover;
  context.fillRect(left, top, width, height);
  context.globalAlpha = 0.7;
  context.strokeStyle = colours.text;
  context.lineWidth = 1;
  context.beginPath();
  for (let x = left - left % HATCH - height; x < left + width; x += HATCH) {
    context.moveTo(x, top + height);
    context.lineTo(x + height, top);
  }
  context.stroke();
  context.restore();
}

function firstFrom(marks, us) {
  const found = marks.findIndex((mark) => mark.us >= us);
  return found < 0 ? marks.length : found;
}

/** The smallest of 1, 2, 5, 10 … microseconds that is not below `us`. */
function roundStep(us) {
  const power = 10 ** Math.floor(Math.log10(Math.max(us, 1)));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= us);
}

/** A moment of the axis, with the decimals that separate it from the next one. */
function axisText(us, step) {
  return `${fixed(us / 1e6, Math.max(0, 6 - Math.floor(Math.log10(step) + 1e-9)))} s`;
}

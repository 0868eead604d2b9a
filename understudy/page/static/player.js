/** The moment that the page shows, and how it moves: by play, by step, by drag, or with the live edge. */

export const SPEEDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100];

/**
 * A moment: the state after the first `n` records, at the time `us`.
 *
 * Args:
 *   history: the records (`#history`).
 *   now: returns the time of the machine in milliseconds.
 */
export class Player {
  constructor(history, now = () => performance.now()) {
    this._history = history;
    this._now = now;
    this._before = now();
    this._edge = { us: 0, at: now() };
    this.n = 0;
    this.us = 0;
    this.speed = 1;
    this.isPlaying = false;
    this.isLive = false;
    /** Whether the moment is the newest record, and stays so as records come. */
    this.isAtEdge = false;
    this.version = 0;
  }

  /** Note that records came. A live run that is shown at its edge moves on. */
  grew() {
    const { length } = this._history;
    if (length > 0) {
      this._edge = { us: this._history.timeAt(length - 1), at: this._now() };
    }
    if (this.isAtEdge) {
      this._goTo(length, this._edge.us);
    }
  }

  /** Advance to the present; call it once for each frame. Returns whether the moment has changed. */
  tick() {
    const now = this._now();
    const passed = now - this._before;
    this._before = now;
    const before = this.version;
    if (this.isAtEdge && this.isLive) {
      this.us = this._edge.us + (now - this._edge.at) * 1000;
    } else if (this.isPlaying) {
      this._play(passed * 1000 * this.speed);
    }
    return this.version !== before || (this.isAtEdge && this.isLive);
  }

  _play(us) {
    const end = this._edge.us;
    const next = Math.min(this.us + us, end);
    this._goTo(this._history.indexAt(next), next);
    if (next >= end) {
      this.isPlaying = false;
      this.isAtEdge = this.isLive;
    }
  }

  play() {
    const { length } = this._history;
    if (length === 0 || this.isAtEdge && this.isLive) {
      return;
    }
    if (this.us >= this._edge.us) {
      this.toTime(this._history.timeAt(0));
    }
    this.isPlaying = true;
    this.isAtEdge = false;
    this._before = this._now();
    this.version += 1;
  }

  pause() {
    if (this.isAtEdge && this.isLive) {
      this._goTo(this._history.length, this._edge.us);
    }
    this.isPlaying = false;
    this.isAtEdge = false;
    this.version += 1;
  }

  toggle() {
    if (this.isPlaying || this.isAtEdge && this.isLive) {
      this.pause();
    } else {
      this.play();
    }
  }

  /** Show the moment after the first `n` records. */
  toRecord(n) {
    const bounded = Math.max(0, Math.min(n, this._history.length));
    this.isAtEdge = false;
    this.isPlaying = false;
    this._goTo(bounded, bounded > 0 ? this._history.timeAt(bounded - 1) : this._first());
  }

  /** Show a time in microseconds; it may be before the first record. */
  toTime(us) {
    const bounded = Math.max(this._first(), Math.min(us, this._edge.us));
    this.isAtEdge = false;
    this._goTo(this._history.indexAt(bounded), bounded);
  }

  /** Show the newest record, and of a live run those that come. */
  toEdge() {
    this.isPlaying = false;
    this.isAtEdge = true;
    this._goTo(this._history.length, this._edge.us);
  }

  /** Change the speed by so many steps of `SPEEDS`. */
  changeSpeed(steps) {
    const index = Math.max(0, Math.min(SPEEDS.indexOf(this.speed) + steps, SPEEDS.length - 1));
    this.speed = SPEEDS[index];
    this.version += 1;
  }

  _first() {
    return this._history.length > 0 ? this._history.timeAt(0) : 0;
  }

  _goTo(n, us) {
    this.n = n;
    this.us = us;
    this.version += 1;
  }
}

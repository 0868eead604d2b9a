/** Commands on a live cluster: the menu of a broker and of the cluster, each sent to the control port. */

import { byId, h, setText } from "#dom";

/** The verbs on a broker: label, verb, and further keys of the body. */
const ON_BROKER = [
  ["Kill (SIGKILL)", "kill"],
  ["Pause (SIGSTOP)", "pause"],
  ["Pause for 10 s, longer than a session", "pause", { for: "10s" }],
  ["Resume (SIGCONT)", "resume"],
  ["Stop in a controlled way (SIGTERM)", "stop"],
  ["Start", "start"],
  ["Restart", "restart"],
  ["Depose: delete /controller", "depose"],
  ["Isolate from the network", "isolate"],
  ["Heal the network", "heal"],
];

/**
 * The dialog of commands.
 *
 * Args:
 *   source: sends a command (`source.command(path, body)`, a promise of the answer).
 *   run: `can_command`, the verbs that this cluster can do, and what can be armed: `points` and `point_actions`.
 *   chosen: returns the partition that is chosen, [topic, partition] or null.
 */
export class Commands {
  constructor(source, run, chosen) {
    this._source = source;
    this._run = run;
    this._verbs = new Set(run.verbs.map(({ name }) => name));
    this._chosen = chosen;
    this._dialog = byId("commands");
    this._body = byId("commands-body");
    this._status = byId("commands-status");
    byId("commands-close").addEventListener("click", () => this._dialog.close());
  }

  /** Open the commands of a broker, or those of the cluster where `broker` is null. */
  async open(broker) {
    setText(this._status, "");
    await this._refresh();
    setText(byId("commands-title"), broker === null ? "Commands for the cluster" : `Commands for broker ${broker}`);
    if (!this._run.can_command) {
      this._body.replaceChildren(h("p", {}, whyNot(this._run)));
    } else if (broker === null) {
      this._body.replaceChildren(...this._clusterForms());
    } else {
      this._body.replaceChildren(...this._brokerForms(String(broker)));
    }
    if (!this._dialog.open) {
      this._dialog.showModal();
    }
  }

  /** Look whether the cluster takes commands now; where the server does not answer, what was known stays. */
  async _refresh() {
    try {
      await this._source.refresh();
    } catch (error) {
      setText(this._status, error.message);
    }
  }

  _brokerForms(target) {
    const able = ON_BROKER.filter(([, verb]) => this._verbs.has(verb));
    const buttons = able.map(([label, verb, further]) => h("button", {
      type: "button", "data-verb": verb, onclick: () => this._send(`/verbs/${verb}`, { target, ...further }),
    }, label));
    return [h("div.verbs", {}, ...buttons), ...this._verbs.has("arm") ? [this._armForm(target)] : []];
  }

  _armForm(target) {
    const point = select("point", this._run.points);
    const action = select("action", this._run.point_actions);
    return form("Arm a named point", [labelled("point", point), labelled("then", action)], "Arm", () =>
      this._send("/verbs/arm", { target, point: point.value, action: action.value }));
  }

  _clusterForms() {
    const name = h("input", { name: "topic", required: true, maxlength: 249, value: "orders" });
    const partitions = h("input", { name: "partitions", type: "number", min: 1, max: 10_000, value: 6 });
    const replicas = h("input", { name: "replicas", type: "number", min: 1, max: 100, value: 3 });
    const chosen = this._chosen();
    const partition = h("input", { name: "partition", required: true, value: (chosen ?? ["orders", "0"]).join("/") });
    const value = h("input", { name: "value", required: true, value: "a record" });
    return [
      form("Create a topic", [
        labelled("name", name), labelled("partitions", partitions), labelled("replication factor", replicas),
      ], "Create", () => this._send("/topics", {
        name: name.value, partitions: Number(partitions.value), replication_factor: Number(replicas.value),
      })),
      form("Produce a record", [labelled("partition", partition), labelled("value", value)], "Produce", () =>
        this._send("/produce", { partition: partition.value, values: [value.value] })),
      form("Elect preferred leaders", [], "Elect", () => this._send("/elections", { type: "preferred" })),
    ];
  }

  async _send(path, body) {
    setText(this._status, "…");
    try {
      const answer = await this._source.command(path, body);
      setText(this._status, answer.message ?? `done: ${JSON.stringify(answer)}`);
    } catch (error) {
      setText(this._status, `not done: ${error.message}`);
    }
  }
}

function form(title, inputs, label, send) {
  return h(
    "form",
    { onsubmit: (event) => { event.preventDefault(); send(); } },
    h("h3", {}, title),
    ...inputs,
    h("button", { type: "submit" }, label),
  );
}

function select(name, values) {
  return h("select", { name }, ...values.map((value) => h("option", {}, value)));
}

function labelled(text, input) {
  return h("label", {}, `${text} `, input);
}

function whyNot(run) {
  return run.is_live
    ? "This cluster has no control port on this machine, an experiment acts on it, "
      + "or the page was opened without its token."
    : "The run has ended. Start one with `understudy up --watch`, and command it from here.";
}

/** Shows how many records the run has. */
import { openSource } from "#source";

const source = await openSource();
let records = 0;
for await (const text of source.chunks()) {
  records += JSON.parse(text).length;
}
document.body.textContent = `${source.run.title}: ${records} records`;

import { setTimeout as sleep } from 'node:timers/promises';
import { toJson } from '@bufbuild/protobuf';
import { Pool } from 'undici';
import { ReturnSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { sampleEvent } from '../../../services/contract/sample-event.ts';
import { serveParent } from '../ipc.ts';
import { monotonicMs } from '../stats.ts';

const CONNECTIONS = 64;
const TRIGGER = 'return.closed';
const { ORIGIN = '', API_KEY = '', RUN = '' } = process.env;
const headers = { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' };

const pool = new Pool(ORIGIN, { connections: CONNECTIONS });
const { snapshot } = sampleEvent(TRIGGER, 1n);
if (!snapshot) throw new Error('the sample event has no snapshot');
/** A whole return, as in the deliveries of the webhooks service. */
const data = toJson(ReturnSchema, snapshot);

let published = 0;
let received = 0;
let isSaturating = false;
let writers: Promise<void>[] = [];

/** Publishes one event with Outpost's API, and returns its id. */
async function publish(tenants: readonly string[]): Promise<string> {
  published += 1;
  const id = `${RUN}-${published}`;
  const body = JSON.stringify({
    id,
    tenant_id: tenants[published % tenants.length],
    topic: TRIGGER,
    data,
  });
  const answer = await pool.request({ method: 'POST', path: '/api/v1/publish', headers, body });
  await answer.body.dump();
  if (answer.statusCode > 299) throw new Error(`publish responded with ${answer.statusCode}`);
  return id;
}

const methods = {
  /** Publishes at a fixed rate. Returns the scheduled time of each event, by id. */
  async flow(o: { tenants: readonly string[]; perSecond: number; count: number }) {
    const times = new Map<string, number>();
    const started = monotonicMs();
    const pending: Promise<void>[] = [];
    for (let at = 0; at < o.count; at += 1) {
      const scheduled = started + (at * 1_000) / o.perSecond;
      const early = scheduled - monotonicMs();
      if (early > 0) await sleep(early);
      pending.push(publish(o.tenants).then((id) => void times.set(id, scheduled)));
    }
    await Promise.all(pending);
    return times;
  },
  /** Keeps this many events in flight until `stop`. */
  saturate(o: { tenants: readonly string[]; window: number }) {
    isSaturating = true;
    const writer = async () => {
      while (isSaturating) {
        if (published - received >= o.window) await sleep(2);
        else await publish(o.tenants);
      }
    };
    writers = Array.from({ length: CONNECTIONS }, writer);
  },
  /** Sets the number of deliveries that the sink has received. */
  received(count: number) {
    received = count;
  },
  async stop(_: undefined) {
    isSaturating = false;
    await Promise.all(writers);
    return published;
  },
};
export type PublishMethods = typeof methods;

serveParent(methods);

import { randomUUID } from 'node:crypto';
import { toJson } from '@bufbuild/protobuf';
import { Pool } from 'undici';
import { ReturnSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { sampleEvent } from '../../../services/contract/sample-event.ts';
import { createPublisher } from '../ends/publishing.ts';
import { serveParent } from '../ipc.ts';

/** How an API takes an event. */
interface Api {
  pathOf(tenant: string): string;
  bodyOf(tenant: string, id: string): unknown;
  /** Returns the id that the deliveries of the event have. */
  idOf(id: string, answer: string): string;
}

const TRIGGER = 'return.closed';
const { ORIGIN = '', TOKEN = '', API = '' } = process.env;
const { snapshot } = sampleEvent(TRIGGER, 1n);
if (!snapshot) throw new Error('the sample event has no snapshot');
/** A whole return, as in the deliveries of the webhooks service. */
const data = toJson(ReturnSchema, snapshot);

const APIS: Readonly<Record<string, Api>> = {
  outpost: {
    pathOf: () => '/api/v1/publish',
    bodyOf: (tenant, id) => ({ id, tenant_id: tenant, topic: TRIGGER, data }),
    idOf: (id) => id,
  },
  svix: {
    pathOf: (tenant) => `/api/v1/app/${tenant}/msg/`,
    bodyOf: (_, id) => ({ eventType: TRIGGER, eventId: id, payload: data }),
    idOf: (_, answer) => JSON.parse(answer).id,
  },
};
const api = APIS[API];
if (!api) throw new Error(`there is no API ${API}`);

const pool = new Pool(ORIGIN, { connections: 64 });
const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' };

async function publish(shop: bigint): Promise<string> {
  const [tenant, id] = [`tenant-${shop}`, randomUUID()];
  const body = JSON.stringify(api?.bodyOf(tenant, id));
  const path = api?.pathOf(tenant) ?? '';
  const answer = await pool.request({ method: 'POST', path, headers, body });
  const text = await answer.body.text();
  if (answer.statusCode > 299) throw new Error(`${path}: ${answer.statusCode} ${text}`);
  return api?.idOf(id, text) ?? '';
}

serveParent(createPublisher((shops) => Promise.all(shops.map(publish))));

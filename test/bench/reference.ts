import express from 'express';
import { returnDetails } from '../../services/contract/views/return-details.ts';
import { createPool } from '../../services/platform/postgres.ts';
import { loadReturns } from '../../services/returns/store/load.ts';
import { serveParent } from './ipc.ts';

/** As many connections as the service that it is compared with has. */
const POOL_MAX = 10;
const SHOP_ID = BigInt(process.env.SHOP_ID ?? '0');

/**
 * What the system is held against: one Express process before the same database, without keys,
 * limits, versions, validation, telemetry or a second process.
 */
async function listen(): Promise<number> {
  const reads = createPool(process.env.READS_URL ?? '', { max: POOL_MAX });
  const writes = createPool(process.env.WRITES_URL ?? '', { max: POOL_MAX });
  const app = express();

  // The same statement and the same answer as GET return details.
  app.get('/details', async (req, res) => {
    const id = BigInt(String(req.query.return_id));
    const [found] = await loadReturns(reads, SHOP_ID, [id]);
    if (found) res.json(returnDetails(found));
    else res.status(404).end();
  });

  // The same statement, but an answer that is ready.
  let ready: unknown;
  app.get('/details-ready', async (req, res) => {
    const id = BigInt(String(req.query.return_id));
    const [found] = await loadReturns(reads, SHOP_ID, [id]);
    ready ??= found && JSON.stringify(returnDetails(found));
    res.type('json').send(ready);
  });

  // One statement that stores what was said of the lines.
  app.post('/assess', express.json({ limit: '1mb' }), async (req, res) => {
    const { items } = req.body;
    const { rows } = await writes.query({
      name: 'floor',
      text: STORE,
      values: [SHOP_ID, JSON.stringify(items)],
    });
    res.json(rows);
  });

  return new Promise((done) => {
    const server = app.listen(0, '127.0.0.1', () => {
      const address = server.address();
      done(typeof address === 'object' && address ? address.port : 0);
    });
  });
}

const STORE = `
insert into bench_assessments (shop_id, kind, line_item_id, outcome, return_processor, note, inspected_at,
  time_defaulted, images, actor_kind, actor_id, actor_name)
select $1, 'assessment', i.line_item_id, i.disposition_outcome, i.return_processor, i.note, now(),
  true, '{}', 'system', 'floor', 'floor'
from json_to_recordset($2::json)
  as i (line_item_id bigint, disposition_outcome text, return_processor text, note text)
returning id::text, line_item_id::text, outcome, return_processor, note, inspected_at`;

const methods = { listen: async (_: undefined) => listen() };
export type ReferenceMethods = typeof methods;

serveParent(methods);

import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../kit/until.ts';
import { backUp, query, restoreTo } from '../backup.ts';
import { arrived, demoShop } from '../demo.ts';
import { DEV } from '../kubectl.ts';
import { moreReturns } from '../ledger.ts';
import { PROCESSES, untilReady } from '../pods.ts';
import { devUrl, secondsSince, type Trial } from '../trial.ts';

const PATH = '/restore';
const ARRIVES = { withinMs: 120_000, everyMs: 1_000, despiteErrors: true };
const HOUR_MS = 3_600_000;
/**
 * The database goes back to a time T, as docs/operations.md ("Backups") describes. Of three returns one was closed and
 * its webhook sent before T; one was closed before T and its webhook sent after it; one was closed after T. A fourth was
 * made after T. Needs the step `install`.
 */
export async function restore(trial: Trial): Promise<void> {
  const { check } = trial;
  const post = await postTo(trial);
  await post('webhooks', {
    url: `http://receiver:8080${PATH}`,
    topic: 'return',
    trigger: 'return.closed',
  });
  await backUp();
  const [sent, between, later] = (await moreReturns(3)).map(({ id }) => id);
  if (!sent || !between || !later) throw new Error('fewer than three returns');
  await close(post, sent);
  await until(() => webhookOf(sent), ARRIVES);
  // Its result is recorded a moment after the answer of the receiver.
  await sleep(3_000);
  await scale(['webhooks'], 0);
  await close(post, between);
  const target = await query('select now()');
  await sleep(1_000);
  await scale(['webhooks'], 1);
  const first = await until(() => webhookOf(between), ARRIVES);
  await close(post, later);
  const lost = await until(() => webhookOf(later), ARRIVES);
  const [lostReturn] = await moreReturns(1);
  await query('select pg_switch_wal()');

  const startedMs = performance.now();
  await scale(PROCESSES, 0);
  await restoreTo(target);
  const states = `select string_agg(state::text, ', ' order by id) from returns.returns where id in (${sent}, ${between}, ${later})`;
  const found = await query(states);
  check(`data of ${target}: the three returns are ${found}`, found === 'closed, closed, open');
  await scale(PROCESSES, 1);
  for (const name of ['returns', 'fraud']) await replay(name, target);
  check(`all is ready after ${secondsSince(startedMs)} s`, true);
  const again = await until(async () => {
    const one = await webhookOf(between);
    return one && one.count > 1 ? one : false;
  }, ARRIVES).catch(() => undefined);
  check(`the webhook after T came again with the same id: ${again?.id}`, again?.id === first.id);
  check('that before T did not come again', (await webhookOf(sent))?.count === 1);
  await close(post, later);
  const isRepeated = async () => ((await webhookOf(later))?.ids ?? 0) > 1;
  const isSent = await until(isRepeated, ARRIVES).catch(() => false);
  check('the return that is open again can be closed, and its webhook comes', isSent);
  const sequence = (await webhookOf(later))?.sequence ?? 0;
  const isLater = sequence > lost.sequence;
  check(`its sequence is ${sequence}, the lost change had ${lost.sequence}`, isLater);
  const [made] = await moreReturns(1);
  const isNew = made !== undefined && lostReturn !== undefined && made.id > lostReturn.id;
  check(`a new return has the id ${made?.id}, the lost one had ${lostReturn?.id}`, isNew);
}

async function postTo(trial: Trial) {
  const { key } = await demoShop();
  const url = await devUrl(trial);
  const headers = { 'X-Authorization': key, 'Content-Type': 'application/json' };
  return async (path: string, body: object): Promise<number> => {
    const init = { method: 'POST', headers, body: JSON.stringify(body) };
    return (await fetch(`${url}/api/v1/${path}`, init)).status;
  };
}

type Post = Awaited<ReturnType<typeof postTo>>;

/** Processes a return, and waits until it is closed. */
async function close(post: Post, id: number): Promise<void> {
  await until(async () => (await post(`warehouse/return/${id}/process`, {})) === 200, ARRIVES);
  const isClosed = async () =>
    (await query(`select state from returns.returns where id = ${id}`)) === 'closed';
  await until(isClosed, ARRIVES);
}

/** The webhook of a return that came most often, how many ids the return has, and its highest sequence. */
async function webhookOf(returnId: number) {
  const all = [...(await arrived(PATH))].filter(([, one]) => one.returnId === returnId);
  const [first] = all.toSorted(([, one], [, other]) => other.count - one.count);
  const sequence = Math.max(...all.map(([, one]) => one.sequence));
  return first && { id: first[0], count: first[1].count, ids: all.length, sequence };
}

async function scale(names: readonly string[], replicas: number): Promise<void> {
  const deployments = names.map((name) => `deployment/${name}`);
  await DEV.kubectl('scale', `--replicas=${replicas}`, ...deployments);
  if (replicas === 0) {
    const gone = ['wait', '--for=delete', 'pod', '-l', `app in (${names.join(',')})`];
    await DEV.kubectl(...gone, '--timeout=120s');
  }
  await untilReady(DEV);
}

/** Publishes the events since an hour before the target again. */
async function replay(name: string, target: string): Promise<void> {
  const from = new Date(new Date(target).getTime() - HOUR_MS).toISOString();
  const command = ['node', `services/${name}/replay.ts`, '--from', from];
  await DEV.kubectl('exec', `deployment/${name}`, '-c', 'server', '--', ...command);
}

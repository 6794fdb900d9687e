import { z } from 'zod';
import { until } from '../../kit/until.ts';
import { demoShop } from '../demo.ts';
import { DEV } from '../kubectl.ts';
import { untilReady } from '../pods.ts';
import { connectFrom } from '../probes.ts';
import { untilRolledOut } from '../release.ts';
import { addressOfStranger, ELSEWHERE, startStranger } from '../stranger.ts';
import { devUrl, type Trial } from '../trial.ts';

const created = z.object({ id: z.number() });
const deliveries = z.object({
  deliveries: z.array(z.looseObject({ attempts: z.array(z.looseObject({})) })),
});

/** A webhook to a private address, although the code's own guard allows it. Needs the step `install`. */
export async function privateWebhook(trial: Trial): Promise<void> {
  await startStranger(trial.images.release);
  const host = await addressOfStranger();
  const url = `http://${host}:8080`;
  await allow(`http://receiver:8080,${url}`);
  const shop = await demoShop();
  const api = `${await devUrl(trial)}/api/v1`;
  const headers = { 'X-Authorization': shop.key, 'Content-Type': 'application/json' };
  const ask = async (method: string, path: string, body?: object): Promise<unknown> => {
    const init = { method, headers, ...(body && { body: JSON.stringify(body) }) };
    const response = await fetch(`${api}/${path}`, init);
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response.status === 204 ? undefined : response.json();
  };
  const webhook = { url: `${url}/hook`, topic: 'return', trigger: 'return.closed' };
  const { id } = created.parse(await ask('POST', 'webhooks', webhook));
  const last = shop.returns.at(-2);
  await ask('POST', `warehouse/return/${last?.id}/process`, {});
  const attempts = await until(
    async () => {
      const list = deliveries.parse(await ask('GET', `webhooks/${id}/deliveries`));
      return list.deliveries[0]?.attempts.length ? list.deliveries[0].attempts : false;
    },
    { withinMs: 90_000, everyMs: 1_000 },
  ).catch(() => []);
  const asked = (await ELSEWHERE.kubectl('logs', 'stranger')).includes('asked');
  trial.check(
    `a webhook to a private address, allowed by the code, does not arrive: ${JSON.stringify(attempts[0])}`,
    attempts.length > 0 && !asked,
  );
  const reached = await connectFrom(ELSEWHERE, 'pod/stranger', { host, port: 8080 });
  trial.check('that address answers others', reached === 'open');
  await ask('DELETE', `webhooks/${id}`);
  await allow('http://receiver:8080');
}

/** Sets the origins that the code's guard lets through. */
async function allow(origins: string): Promise<void> {
  await DEV.kubectl('set', 'env', 'deployment/webhooks', `WEBHOOK_ALLOWED_ORIGINS=${origins}`);
  await untilRolledOut(DEV, 'webhooks');
  // The former pod answers calls until it is gone.
  await untilReady(DEV);
}

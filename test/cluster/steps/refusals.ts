import { PRODUCTION } from '../kubectl.ts';
import { PROCESSES, processPods } from '../pods.ts';
import { callFrom, connectFrom, tokenOf } from '../probes.ts';
import { ELSEWHERE, startStranger } from '../stranger.ts';
import type { Trial } from '../trial.ts';

const FIND = '/rms.returns.v1.ReturnsService/FindReturn';
const SUBMIT = '/rms.returns.v1.ReturnsService/SubmitReturn';

/** Network policies and tokens of the production overlay. Needs the step `production`. */
export async function refusals(trial: Trial): Promise<void> {
  await startStranger(trial.images.release);
  await tryConnections(trial);
  await tryTokens(trial);
}

async function tryConnections({ check }: Trial): Promise<void> {
  const all = await processPods(PRODUCTION);
  const hostOf = (app: string) =>
    all.find(({ metadata }) => metadata.labels.app === app)?.status.podIP ?? '';
  const fromStranger = (host: string, port: number) =>
    connectFrom(ELSEWHERE, 'pod/stranger', { host, port });
  const refused: string[] = [];
  for (const app of PROCESSES.filter((name) => name !== 'gateway')) {
    refused.push(await fromStranger(hostOf(app), 8080));
  }
  refused.push(await fromStranger('postgres.rms.svc', 5432));
  refused.push(await fromStranger('kafka.rms.svc', 9092));
  check(
    `a pod of another namespace reaches no service, PostgreSQL or Kafka: ${refused.join(', ')}`,
    refused.every((one) => one !== 'open'),
  );
  check('it reaches the gateway', (await fromStranger(hostOf('gateway'), 8080)) === 'open');
  const fromCarts = (host: string, port: number) =>
    connectFrom(PRODUCTION, 'deployment/carts', { host, port });
  const [returns, postgres] = [await fromCarts('returns', 8080), await fromCarts('postgres', 5432)];
  check(
    `carts, which calls nobody, does not reach returns (${returns}), but PostgreSQL (${postgres})`,
    returns !== 'open' && postgres === 'open',
  );
}

async function tryTokens({ check }: Trial): Promise<void> {
  await PRODUCTION.apply({
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: { name: 'stranger' },
  });
  const call = async (account: string, o: { audience?: string; path?: string } = {}) =>
    callFrom(PRODUCTION, {
      from: 'deployment/gateway',
      target: 'returns:8080',
      path: o.path ?? FIND,
      token: await tokenOf(PRODUCTION, account, o.audience ?? 'rms'),
    });
  const expect = async (what: string, status: string, call: Promise<string>) => {
    const seen = await call;
    check(`${what}: ${seen}`, seen === status);
  };
  await expect('a token of a foreign account', 'UNAUTHENTICATED', call('stranger'));
  await expect(
    'a token for another audience',
    'UNAUTHENTICATED',
    call('gateway', { audience: 'other' }),
  );
  await expect('a token of carts, which calls nobody', 'UNAUTHENTICATED', call('carts'));
  await expect(
    'a token of fraud for a call that it may not make',
    'PERMISSION_DENIED',
    call('fraud', { path: SUBMIT }),
  );
  await expect('a token of the gateway is accepted', 'INVALID_ARGUMENT', call('gateway'));
}

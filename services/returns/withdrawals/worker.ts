import { Code, ConnectError } from '@connectrpc/connect';
import { type Loop, type Next, startLoop } from '../../platform/process/worker.ts';
import { systemActor } from '../../platform/security/identity.ts';
import type { Logger } from '../../platform/telemetry/log.ts';
import type { SubmitDeps } from '../submit/submit.ts';
import { claimJob, deleteJob } from './withdrawal-store.ts';
import { returnWithdrawal } from './withdrawals.ts';

type WorkerDeps = SubmitDeps & { readonly logger: Logger };

/** How often a process looks for jobs that another process did not finish. Milliseconds. */
const EVERY_MS = 60_000;
/** Tries, five minutes apart, while the shop's platform does not answer. Afterwards a person of the shop decides. */
const MAX_ATTEMPTS = 12;

/** Starts the loop that makes returns of withdrawals, for shops whose policy says so. Replicas may run it. */
export function startWithdrawalReturns(o: WorkerDeps): Loop {
  return startLoop({
    name: 'returns: withdrawals',
    logger: o.logger,
    idleMs: EVERY_MS,
    step: () => returnNext(o),
  });
}

async function returnNext(o: WorkerDeps): Promise<Next> {
  const job = await claimJob(o.pool);
  if (!job) return 'idle';
  const { shopId, withdrawalId, attempts } = job;
  const about = { shop: String(shopId), withdrawal: String(withdrawalId), attempts };
  try {
    await returnWithdrawal(o, { shopId, withdrawalId, actor: systemActor('withdrawals') });
  } catch (error) {
    const { code, rawMessage: reason } = ConnectError.from(error);
    if (TRANSIENT.has(code) && attempts < MAX_ATTEMPTS) {
      o.logger.warn({ ...about, reason }, 'a withdrawal is no return yet, retrying');
      return 'again';
    }
    o.logger.info({ ...about, reason }, 'a withdrawal became no return: a person decides');
  }
  await deleteJob(o.pool, job);
  return 'again';
}

const TRANSIENT: ReadonlySet<Code> = new Set([
  Code.Unavailable,
  Code.DeadlineExceeded,
  Code.ResourceExhausted,
  Code.Internal,
  Code.Unknown,
]);

import type pg from 'pg';
import { createHttpCommerce } from '../../../services/commerce/http/adapter.ts';
import type { Answer, CommerceClient } from '../../../services/commerce/http/client.ts';
import { createRequestWatch } from '../../../services/commerce/request-watch.ts';
import { createLeaseWatch } from '../../../services/platform/leases/lease-watch.ts';
import { newSecret, signingKeyOf } from '../../../services/platform/outbound/signature.ts';
import { DomainError } from '../../../services/platform/values/errors.ts';
import { claimJobs, type Job, LEASE_MS } from '../../../services/returns/processing/jobs.ts';
import { runJob } from '../../../services/returns/processing/run.ts';
import { takeOverJobs } from '../../../services/returns/processing/worker.ts';
import { destinations, onlyProvider } from '../services/processing.ts';
import { changeDeps } from '../services/return-stores.ts';

/** A request for an effect on its way to the platform. */
export interface Sent {
  readonly key: string;
  readonly amount: string;
  readonly currency: string;
  readonly signedS: number;
  state: 'on its way' | 'begun' | 'made' | 'rejected';
}

const never = new AbortController().signal;
export const ANSWERED = { retryAfter: undefined, date: undefined };

/** What a worker sees of the world. */
interface Surroundings {
  readonly pool: pg.Pool;
  /** The requests that were sent to the platform. */
  readonly sent: Sent[];
  hasLost(job: Job): boolean;
}

/** One worker, which runs until it has nothing to do, waits for an answer, or is frozen. */
export class Worker {
  readonly #world: Surroundings;
  readonly watch = createRequestWatch();
  readonly #leases = createLeaseWatch(LEASE_MS);
  /** Number of steps until it freezes. */
  freezeIn = Number.POSITIVE_INFINITY;
  thaw: (() => void) | undefined;
  answer: ((answer: Answer | Error) => void) | undefined;
  sent: Sent | undefined;
  job: Job | undefined;
  #isRunning = false;
  #failure: unknown;
  #stopped = Promise.withResolvers<void>();

  constructor(world: Surroundings) {
    this.#world = world;
  }

  async turn(): Promise<void> {
    if (this.#isRunning) return;
    this.#isRunning = true;
    await this.#untilStopped(() => {
      this.#run()
        .catch((error: unknown) => {
          this.#failure = error;
        })
        .finally(() => {
          this.#isRunning = false;
          this.#stopped.resolve();
        });
    });
  }

  /** Continues after a freeze, or with an answer. */
  async resume(how: 'thaw' | 'answer', answer: Answer | Error = new Error('lost')): Promise<void> {
    const go = this[how];
    if (!go) return;
    this[how] = undefined;
    await this.#untilStopped(() => go(answer));
  }

  async #untilStopped(begin: () => void): Promise<void> {
    this.#stopped = Promise.withResolvers<void>();
    begin();
    await this.#stopped.promise;
    if (this.#failure) throw this.#failure;
  }

  async #gate(): Promise<void> {
    this.freezeIn -= 1;
    if (this.freezeIn >= 0) return;
    this.freezeIn = Number.POSITIVE_INFINITY;
    const thawed = new Promise<void>((resolve) => {
      this.thaw = resolve;
    });
    this.#stopped.resolve();
    await thawed;
  }

  async #run(): Promise<void> {
    const own = this.#gated(this.#world.pool);
    await takeOverJobs(own, this.#leases);
    const [job] = await claimJobs(own, 1);
    this.job = job;
    if (!job) return;
    const commerce = createHttpCommerce({
      client: { post: (request) => this.#post(request), close: async () => {} },
      url: 'https://shop.example.com/',
      keys: [signingKeyOf(newSecret())],
      sandbox: false,
    });
    const frozen: typeof commerce = {
      ...commerce,
      create: async (request, signal) => {
        await this.#gate();
        return commerce.create(request, signal);
      },
    };
    const deps = { ...changeDeps(own), destinations, watch: this.watch, retryBackoff: () => 0 };
    await runJob({ ...deps, providers: onlyProvider(frozen) }, job, never).catch(
      (error: unknown) => {
        // A worker logs that the return of its job was lost.
        if (!(error instanceof DomainError && this.#world.hasLost(job))) throw error;
      },
    );
    this.job = undefined;
  }

  /** A worker that freezes in a transaction would only lose its locks after some time. So it freezes outside. */
  #gated(target: pg.Pool): pg.Pool {
    const act =
      (name: 'query' | 'connect') =>
      async (...args: unknown[]) => {
        // The notification of the relay runs beside the job, so it does not freeze it.
        if ((args[0] as pg.QueryConfig | undefined)?.name === 'outbox-notify')
          return Reflect.apply(target[name], target, args);
        await this.#gate();
        const result: unknown = await Reflect.apply(target[name], target, args);
        if (name === 'query') await this.#gate();
        return result;
      };
    return new Proxy(target, {
      get: (_, name) =>
        name === 'query' || name === 'connect' ? act(name) : Reflect.get(target, name),
    });
  }

  async #post({ headers, body }: Parameters<CommerceClient['post']>[0]): Promise<Answer> {
    const { type, data } = JSON.parse(body);
    if (type === 'effect.find') {
      const found = this.#world.sent.find((one) => one.key === data.key && one.state === 'made');
      await this.#gate();
      return answerOf(found);
    }
    const { key, amount, currency } = data;
    const signedS = Number(headers['webhook-timestamp']);
    this.sent = { key, amount, currency, signedS, state: 'on its way' };
    this.#world.sent.push(this.sent);
    const answered = new Promise<Answer | Error>((resolve) => {
      this.answer = resolve;
    });
    this.#stopped.resolve();
    const answer = await answered;
    await this.#gate();
    if (answer instanceof Error) throw answer;
    return answer;
  }
}

export function answerOf(made: Sent | undefined): Answer {
  const effect = made && { id: 'R-1', amount: made.amount, currency: made.currency };
  return { status: 200, body: JSON.stringify({ effect: effect ?? null }), ...ANSWERED };
}

import { create } from '@bufbuild/protobuf';
import type pg from 'pg';
import {
  EffectKind,
  SettleEffectRequestSchema,
} from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { DomainError } from '../../../services/platform/errors.ts';
import { createLeaseWatch } from '../../../services/platform/lease-watch.ts';
import { newSecret, signingKeyOf } from '../../../services/platform/outbound/signature.ts';
import { createHttpCommerce } from '../../../services/returns/commerce/http/adapter.ts';
import type { Answer, CommerceClient } from '../../../services/returns/commerce/http/client.ts';
import {
  createRequestWatch,
  seeOpenRequests,
} from '../../../services/returns/commerce/request-watch.ts';
import { settleEffect } from '../../../services/returns/commerce/settle.ts';
import {
  claimJobs,
  type Job,
  LEASE_MS,
  PROCESSING,
} from '../../../services/returns/processing/jobs.ts';
import { runJob } from '../../../services/returns/processing/run.ts';
import { takeOverJobs } from '../../../services/returns/processing/takeover.ts';
import {
  actor,
  destinations,
  onlyProvider,
  reload,
  requestProcessing,
} from '../services/processing.ts';
import { changeDeps } from '../services/return-stores.ts';
import type { Clocks } from './clocks.ts';

/** The adapter waits so long for an answer. Seconds. */
const TIMEOUT_S = 8;
/** What docs/commerce.md requires of an endpoint. Seconds after `webhook-timestamp`. */
const BEGINS_WITHIN_S = 30;
const ENDS_WITHIN_S = 60;

/** A request for an effect on its way to the platform. */
interface Sent {
  readonly key: string;
  readonly amount: string;
  readonly currency: string;
  readonly signedS: number;
  state: 'on its way' | 'begun' | 'made' | 'rejected';
}

const never = new AbortController().signal;
const ANSWERED = { retryAfter: undefined, date: undefined };

/** One worker, which runs until it has nothing to do, waits for an answer, or is frozen. */
export class Worker {
  readonly #world: World;
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

  constructor(world: World) {
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
    await runJob({ ...deps, providers: onlyProvider(frozen) }, job, never);
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

function answerOf(made: Sent | undefined): Answer {
  const effect = made && { id: 'R-1', amount: made.amount, currency: made.currency };
  return { status: 200, body: JSON.stringify({ effect: effect ?? null }), ...ANSWERED };
}

export class World {
  readonly of: Return;
  readonly #clocks: Clocks;
  readonly sent: Sent[] = [];
  readonly workers: Worker[] = [new Worker(this), new Worker(this)];

  constructor(of: Return, clocks: Clocks) {
    this.of = of;
    this.#clocks = clocks;
  }

  get pool(): pg.Pool {
    return this.#clocks.pool;
  }

  get made(): number {
    return this.sent.filter(({ state }) => state === 'made').length;
  }

  async pass(seconds: number): Promise<void> {
    for (const worker of this.workers) {
      if (!worker.thaw) await seeOpenRequests(this.pool, worker.watch);
    }
    const latestS = Date.now() / 1_000 + seconds - ENDS_WITHIN_S;
    for (const one of this.sent) {
      if (one.state === 'begun' && one.signedS <= latestS) one.state = 'made';
    }
    await this.#clocks.pass(seconds);
    for (const worker of this.workers) {
      if (worker.job && !worker.thaw) await PROCESSING.renew(this.pool, [worker.job]);
      if (seconds >= TIMEOUT_S) await worker.resume('answer');
    }
  }

  /** A request reaches the platform, which has forgotten all keys. */
  arrive(nth: number): void {
    const [one] = this.sent.filter(({ state }) => state === 'on its way').slice(nth);
    if (!one) return;
    const isLate = Date.now() / 1_000 - one.signedS > BEGINS_WITHIN_S;
    one.state = isLate ? 'rejected' : 'begun';
  }

  make(nth: number): void {
    const [one] = this.sent.filter(({ state }) => state === 'begun').slice(nth);
    if (one) one.state = 'made';
  }

  /** A worker gets the answer of the platform, if there is one. */
  async answer(worker: Worker): Promise<void> {
    const { sent } = worker;
    if (sent?.state === 'made') await worker.resume('answer', answerOf(sent));
    if (sent?.state !== 'rejected') return;
    await worker.resume('answer', { status: 401, body: '', ...ANSWERED });
  }

  /** A person finds nothing at the platform and says so. */
  async settle({ watch }: Worker): Promise<void> {
    if (this.made > 0) return;
    const about = { shopId: this.of.shopId, returnId: this.of.id, actor, kind: EffectKind.REFUND };
    const request = create(SettleEffectRequestSchema, about);
    await settleEffect({ ...changeDeps(this.pool), watch }, request).catch((error: unknown) => {
      if (!(error instanceof DomainError)) throw error;
    });
  }

  /** Lets everything end: late requests arrive, and live workers finish the return. */
  async end(): Promise<void> {
    await this.#clocks.undoSteps();
    for (let round = 0; round < 40; round += 1) {
      if ((await reload(this.pool, this.of)).state === ReturnState.CLOSED) break;
      await requestProcessing(this.pool, this.of);
      for (const worker of this.workers) {
        await worker.resume('thaw');
        await worker.turn();
        this.deliverAll();
        await this.answer(worker);
      }
      await this.pass(40);
    }
    for (const worker of this.workers) await worker.resume('thaw');
    this.deliverAll();
  }

  deliverAll(): void {
    for (const _ of this.sent) this.arrive(0);
    for (const _ of this.sent) this.make(0);
  }
}

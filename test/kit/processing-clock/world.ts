import { create } from '@bufbuild/protobuf';
import type pg from 'pg';
import {
  EffectKind,
  SettleEffectRequestSchema,
} from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { seeOpenRequests } from '../../../services/commerce/request-watch.ts';
import { DomainError } from '../../../services/platform/values/errors.ts';
import { settleEffect } from '../../../services/returns/processing/effects.ts';
import { type Job, PROCESSING } from '../../../services/returns/processing/jobs.ts';
import {
  actor,
  effectKey,
  newReturn,
  newShop,
  reload,
  requestProcessing,
} from '../services/processing.ts';
import { changeDeps } from '../services/return-stores.ts';
import type { Clocks } from './clocks.ts';
import { ANSWERED, answerOf, type Sent, Worker } from './worker.ts';

/** The adapter waits so long for an answer. Seconds. */
const TIMEOUT_S = 8;
/** What docs/commerce.md requires of an endpoint. Seconds after `webhook-timestamp`. */
const BEGINS_WITHIN_S = 30;
const ENDS_WITHIN_S = 60;

interface Submitted {
  readonly of: Return;
  readonly key: string;
}

/** Submits a return, and requests its processing. */
async function submitted(pool: pg.Pool, shopId: bigint): Promise<Submitted> {
  const of = await newReturn(pool, shopId);
  await requestProcessing(pool, of);
  return { of, key: await effectKey(pool, of, 'refund') };
}

export class World {
  #submitted: Submitted;
  readonly #clocks: Clocks;
  readonly sent: Sent[] = [];
  readonly workers: Worker[] = [new Worker(this), new Worker(this)];

  constructor(first: Submitted, clocks: Clocks) {
    this.#submitted = first;
    this.#clocks = clocks;
  }

  static async begin(clocks: Clocks): Promise<World> {
    await clocks.mark();
    return new World(await submitted(clocks.pool, await newShop(clocks.pool)), clocks);
  }

  get of(): Return {
    return this.#submitted.of;
  }

  get pool(): pg.Pool {
    return this.#clocks.pool;
  }

  hasLost({ returnId }: Job): boolean {
    return returnId !== this.of.id;
  }

  /** The number of refunds of the return. */
  get made(): number {
    return this.#madeOf(this.#submitted.key);
  }

  /** The largest number of refunds of one return, also of a lost one. */
  get mostMade(): number {
    return Math.max(0, ...this.sent.map(({ key }) => this.#madeOf(key)));
  }

  #madeOf(key: string): number {
    return this.sent.filter((one) => one.key === key && one.state === 'made').length;
  }

  /**
   * The database loses the return, and the shopper submits it again. A server that does not tell its timeline is only
   * put in place while no process runs.
   */
  async rewind(tellsTimeline: boolean): Promise<void> {
    await this.#clocks.rewind(tellsTimeline);
    if (!tellsTimeline) this.workers.splice(0, 2, new Worker(this), new Worker(this));
    this.#submitted = await submitted(this.pool, this.of.shopId);
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

import type { ArrivalLog, Receipt } from '../sink/arrival-log.ts';

/** When a fault was injected, and which process's attempts it interrupted. Milliseconds since the epoch. */
export interface Fault {
  readonly from: number;
  /** The end of the fault. */
  readonly to: number;
  /** Local ports of the process that was hit. Undefined when any process may have been hit. */
  readonly ports?: ReadonlySet<number>;
  /** The webhook-ids of results that were unrecorded at the time of the fault, if known. */
  readonly unrecorded?: ReadonlySet<string>;
}

export interface Judgement {
  /** Number of repeated requests with a webhook-id that the sink had accepted before. */
  readonly duplicates: number;
  /** Descriptions of repeats that no fault explains. */
  readonly unexplained: readonly string[];
  /** Other violations: bad signatures, one id with two bodies or two events. */
  readonly violations: readonly string[];
}

/** When a response was sent this shortly before a fault, its result may not be recorded. Milliseconds. */
const RECORDING_MS = 1_000;

/** Requests in flight at the fault: without a response, with a very recent response, or without a recorded result. */
export function inFlightAt(receipts: readonly Receipt[], fault: Fault): Receipt[] {
  return receipts.filter(
    (one) =>
      one.accepted &&
      one.at <= fault.to &&
      (one.endedAt === undefined ||
        one.endedAt >= fault.from - RECORDING_MS ||
        fault.unrecorded?.has(one.webhookId)) &&
      (fault.ports === undefined || fault.ports.has(one.fromPort)),
  );
}

/**
 * Requests that a process had prepared when it was frozen: the first on each of its connections after it continued. Uses
 * only their order, because a freeze of the process or of the sink only delays them.
 */
function leftAfter(inOrder: readonly Receipt[], { to, ports }: Fault): ReadonlySet<Receipt> {
  const first = new Map<number, Receipt>();
  for (const receipt of inOrder) {
    const { at, fromPort } = receipt;
    if (at >= to && ports?.has(fromPort) && !first.has(fromPort)) first.set(fromPort, receipt);
  }
  return new Set(first.values());
}

/** A sender that waited this long may give up. Its time limit for an attempt is 15 s. Milliseconds. */
const GAVE_UP_MS = 14_000;

/** Whether the sender gave up a request that never got a response. Such a request must be repeated. */
function wasGivenUp({ at, endedAt, answered }: Receipt): boolean {
  return answered === false && endedAt !== undefined && endedAt - at >= GAVE_UP_MS;
}

/** Checks all requests at these paths. */
export function judge(
  log: ArrivalLog,
  paths: ReadonlySet<string>,
  faults: readonly Fault[],
): Judgement {
  const unexplained: string[] = [];
  const violations: string[] = [];
  let duplicates = 0;
  const inOrder = [...paths].flatMap((path) => log.at(path)).sort((a, b) => a.number - b.number);
  const cutOff = faults.map((fault) => ({ fault, left: leftAfter(inOrder, fault) }));
  violations.push(...eventsUnderTwoIds(log, paths));
  for (const id of log.ids(paths)) {
    const receipts = log.withId(id);
    violations.push(...wrongIn(id, receipts));
    const accepted = receipts.filter((one) => one.accepted && !wasGivenUp(one));
    // One fault interrupts an attempt once, so it explains one repeat of each delivery.
    const spent = new Set<Fault>();
    for (const [nth, receipt] of accepted.entries()) {
      if (nth === 0) continue;
      duplicates += 1;
      const earlier = accepted.slice(0, nth);
      const cause = cutOff.find(
        ({ fault }) =>
          !spent.has(fault) && fault.from <= receipt.at && inFlightAt(earlier, fault).length > 0,
      );
      if (cause) spent.add(cause.fault);
      else if (!cutOff.some(({ left }) => left.has(receipt))) {
        unexplained.push(`${id} at ${receipt.path} was repeated: ${describe(accepted)}`);
      }
    }
  }
  return { duplicates, unexplained, violations };
}

/** The times of requests and responses, and the ports. */
function describe(receipts: readonly Receipt[]): string {
  const time = (ms: number | undefined): string =>
    ms === undefined ? 'never' : new Date(ms).toISOString().slice(11, 23);
  return receipts
    .map(({ at, endedAt, fromPort }) => `${time(at)}, answered ${time(endedAt)}, from ${fromPort}`)
    .join('; ');
}

function wrongIn(id: string, receipts: readonly Receipt[]): string[] {
  const [first] = receipts;
  if (!first) return [];
  const wrong = receipts.flatMap(({ fault }) => (fault === '' ? [] : [`${id}: ${fault}`]));
  if (receipts.some(({ sha256 }) => sha256 !== first.sha256)) wrong.push(`${id}: other bytes`);
  if (receipts.some(({ eventId }) => eventId !== first.eventId)) wrong.push(`${id}: other event`);
  if (receipts.some(({ path }) => path !== first.path)) wrong.push(`${id}: other endpoint`);
  return wrong;
}

/** Each pair of event and subscription has exactly one webhook-id. */
function eventsUnderTwoIds(log: ArrivalLog, paths: ReadonlySet<string>): string[] {
  return [...paths].flatMap((path) => {
    const ids = new Map<string, string>();
    return log.at(path).flatMap(({ eventId, webhookId }) => {
      const known = ids.get(eventId);
      ids.set(eventId, webhookId);
      return known === undefined || known === webhookId
        ? []
        : [`event ${eventId} came to ${path} as ${known} and as ${webhookId}`];
    });
  });
}

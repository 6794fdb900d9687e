import type { ArrivalBook, Receipt } from '../sink/arrival-book.ts';

/** When a fault was injected, and whose attempts it interrupted. Milliseconds since the epoch. */
export interface Fault {
  readonly from: number;
  /** When it was over. */
  readonly to: number;
  /** Local ports of the process that was hit; undefined for attempts of any process. */
  readonly ports?: ReadonlySet<number>;
  /** By webhook-id, if known: the results that were unrecorded at the time of the fault. */
  readonly unrecorded?: ReadonlySet<string>;
}

export interface Judgement {
  /** Requests that came again although an earlier one with the same webhook-id was accepted. */
  readonly duplicates: number;
  /** Those that no fault explains, in words. */
  readonly unexplained: readonly string[];
  /** Everything else that must never be: bad signatures, one id with two bodies or two events. */
  readonly violations: readonly string[];
}

/** A request that was answered this shortly before a fault may have no recorded result yet. Milliseconds. */
const RECORDING_MS = 1_000;

/** Requests of attempts in flight at the time of the fault: not answered, answered just before, or not recorded. */
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
 * Requests that were about to be sent when their process was frozen: the first on each of its connections after it
 * continued. Uses only their order, because a freeze of the process or of the sink only delays them.
 */
function leftAfter(inOrder: readonly Receipt[], { to, ports }: Fault): ReadonlySet<Receipt> {
  const first = new Map<number, Receipt>();
  for (const receipt of inOrder) {
    const { at, fromPort } = receipt;
    if (at >= to && ports?.has(fromPort) && !first.has(fromPort)) first.set(fromPort, receipt);
  }
  return new Set(first.values());
}

/** A sender that waited this long for an answer gave up rightly: its deadline is 15 s in all. Milliseconds. */
const GAVE_UP_MS = 14_000;

/** A hanging request that its sender ended was never answered, so it must be repeated. */
function wasGivenUp({ at, endedAt, answered }: Receipt): boolean {
  return answered === false && endedAt !== undefined && endedAt - at >= GAVE_UP_MS;
}

/** Judges all requests at these paths. */
export function judge(
  book: ArrivalBook,
  paths: ReadonlySet<string>,
  faults: readonly Fault[],
): Judgement {
  const unexplained: string[] = [];
  const violations: string[] = [];
  let duplicates = 0;
  const inOrder = [...paths].flatMap((path) => book.at(path)).sort((a, b) => a.number - b.number);
  const cutOff = faults.map((fault) => ({ fault, left: leftAfter(inOrder, fault) }));
  violations.push(...eventsUnderTwoIds(book, paths));
  for (const id of book.ids(paths)) {
    const receipts = book.withId(id);
    violations.push(...wrongIn(id, receipts));
    const accepted = receipts.filter((one) => one.accepted && !wasGivenUp(one));
    // One fault cuts an attempt off once: it explains one repeat of a delivery, not any number.
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
        unexplained.push(`${id} at ${receipt.path} came again: ${describe(accepted)}`);
      }
    }
  }
  return { duplicates, unexplained, violations };
}

/** When requests came, when they were answered, and from which port. */
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
function eventsUnderTwoIds(book: ArrivalBook, paths: ReadonlySet<string>): string[] {
  return [...paths].flatMap((path) => {
    const ids = new Map<string, string>();
    return book.at(path).flatMap(({ eventId, webhookId }) => {
      const known = ids.get(eventId);
      ids.set(eventId, webhookId);
      return known === undefined || known === webhookId
        ? []
        : [`event ${eventId} came to ${path} as ${known} and as ${webhookId}`];
    });
  });
}

import type { ArrivalBook, Receipt } from '../sink/arrival-book.ts';

/** When something was broken on purpose, and whose attempts it cut off. Milliseconds since the epoch. */
export interface Fault {
  readonly from: number;
  /** When it was over. */
  readonly to: number;
  /** Local ports of the process that was hit; undefined: anybody's attempts. */
  readonly ports?: ReadonlySet<number>;
  /** By webhook-id, where it was asked: what the system still had to write down when it came. */
  readonly unsettled?: ReadonlySet<string>;
}

export interface Verdict {
  /** Requests that came again although an earlier one with the same webhook-id was accepted. */
  readonly duplicates: number;
  /** Those that no fault explains, in words. */
  readonly unexplained: readonly string[];
  /** Everything else that must never be: bad signatures, one id with two bodies or two events. */
  readonly violations: readonly string[];
}

/**
 * An answer that was given so shortly before a fault may not have been settled yet. Milliseconds.
 */
const SETTLING_MS = 1_000;

/** Requests of the attempts that were in flight when the fault came: not answered, only just, or not written down. */
export function inFlightAt(receipts: readonly Receipt[], fault: Fault): Receipt[] {
  return receipts.filter(
    (one) =>
      one.accepted &&
      one.at <= fault.to &&
      (one.endedAt === undefined ||
        one.endedAt >= fault.from - SETTLING_MS ||
        fault.unsettled?.has(one.webhookId)) &&
      (fault.ports === undefined || fault.ports.has(one.fromPort)),
  );
}

/**
 * Requests that were about to leave when their process was stopped: the first on each connection that it
 * had, after it went on. By order: whoever stands still then, it or the sink, only makes them later.
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

/** One that hung until its sender gave up was never answered: it has to come again. */
function wasGivenUp({ at, endedAt, answered }: Receipt): boolean {
  return answered === false && endedAt !== undefined && endedAt - at >= GAVE_UP_MS;
}

/** Judges all requests at these paths. */
export function judge(
  book: ArrivalBook,
  paths: ReadonlySet<string>,
  faults: readonly Fault[],
): Verdict {
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
        unexplained.push(`${id} at ${receipt.path} came again: ${told(accepted)}`);
      }
    }
  }
  return { duplicates, unexplained, violations };
}

/** When requests came, when they were answered, and from which port. */
function told(receipts: readonly Receipt[]): string {
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

/** An event goes to a subscription under one webhook-id for ever. */
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

import type { Meter } from '@opentelemetry/api';
import type { Logger } from '../log.ts';
import { logSeldom } from '../log-seldom.ts';
import type { EventBus, ReceivedRecord, Subscription } from './event-bus.ts';
import { type EventSignatures, judgeRecord, signRecord, type Verdict } from './event-signature.ts';

/** Refused records may come by the thousand: one line says how many. Milliseconds. */
const WARN_EVERY_MS = 5_000;

/**
 * Milliseconds since 1970, by the time at which the process began and how long it has run: a clock that is set
 * while it runs must not make genuine records look old.
 */
function steadyNow(): number {
  return Math.round(performance.timeOrigin + performance.now());
}

/** A bus that signs what is published over it. */
export function signingBus(bus: EventBus, signatures: EventSignatures): EventBus {
  return {
    ...bus,
    publish(topic, records) {
      const now = steadyNow();
      return bus.publish(
        topic,
        records.map((record) => signRecord(topic, record, { signatures, now })),
      );
    },
  };
}

export interface SignedBusOptions {
  readonly bus: EventBus;
  readonly signatures: EventSignatures;
  /** How long listeners remember what they have handled. Milliseconds. */
  readonly rememberMs: number;
  readonly meter: Meter;
  readonly logger: Logger;
}

/**
 * A bus that signs what is published over it and hands on only records whose signature is valid.
 *
 * All others are set aside where they are: counted, logged with their place in the topic, and skipped.
 * Nothing of them is stored, so a flood of them fills nothing; the topic keeps them as long as all others.
 */
export function signedBus(o: SignedBusOptions): EventBus {
  const refused = o.meter.createCounter('events_refused_total', {
    description: 'Records set aside because their signature is missing or not valid.',
  });
  const unsigned = o.meter.createCounter('events_unsigned_total', {
    description: 'Records handled without a signature, while EVENT_SIGNATURES accepts them.',
  });
  return {
    ...signingBus(o.bus, o.signatures),
    subscribe(s: Subscription) {
      // A record comes again while its batch fails: it is judged and counted once.
      const verdicts = new WeakMap<ReceivedRecord, Verdict>();
      const warn = warning(o.logger, s.group);

      function isHandled(record: ReceivedRecord): boolean {
        const known = verdicts.get(record);
        const verdict = known ?? judge(record);
        const isAccepted = verdict === 'unsigned' && o.signatures.acceptsUnsigned;
        if (known === undefined) {
          verdicts.set(record, verdict);
          if (isAccepted) unsigned.add(1, { group: s.group });
          else if (verdict !== 'valid') {
            refused.add(1, { group: s.group, reason: verdict });
            warn(record, verdict);
          }
        }
        return verdict === 'valid' || isAccepted;
      }

      function judge(record: ReceivedRecord): Verdict {
        const { signatures, rememberMs: maxAgeMs } = o;
        return judgeRecord(record, { signatures, now: steadyNow(), maxAgeMs });
      }

      return o.bus.subscribe({
        ...s,
        async handle(records) {
          const handled = records.filter(isHandled);
          if (handled.length > 0) await s.handle(handled);
        },
      });
    },
  };
}

/** Logs the first refused record, and later how many there were since. */
function warning(logger: Logger, group: string) {
  const seldom = logSeldom(WARN_EVERY_MS);
  return ({ topic, position }: ReceivedRecord, reason: Verdict): void =>
    seldom((count) =>
      logger.error(
        { group, topic, position, reason, records: count },
        'records set aside: not signed by one of our processes',
      ),
    );
}

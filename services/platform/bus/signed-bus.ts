import type { Meter } from '@opentelemetry/api';
import type { Logger } from '../log.ts';
import { logSeldom } from '../log-seldom.ts';
import type { EventBus, ReceivedRecord, Subscription } from './event-bus.ts';
import {
  type EventSignatures,
  judgeRecord,
  type SignatureCheck,
  signRecord,
} from './event-signature.ts';

/** Skipped records may arrive by the thousand. One line per interval counts them. Milliseconds. */
const WARN_EVERY_MS = 5_000;

/**
 * Milliseconds since 1970: the start time of the process plus how long it has run. A change of the system clock must
 * not make genuine records look old.
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
  /** How long listeners remember handled events. Milliseconds. */
  readonly rememberMs: number;
  readonly meter: Meter;
  readonly logger: Logger;
}

/**
 * A bus that signs published records and passes on only records with a valid signature.
 *
 * Other records are counted, logged with their place in the topic, and skipped. They are not stored, so a flood of them
 * cannot fill the database. They stay in the topic for its retention.
 */
export function signedBus(o: SignedBusOptions): EventBus {
  const skipped = o.meter.createCounter('events_skipped_total', {
    description: 'Records that were skipped because their signature is missing or not valid.',
  });
  const unsigned = o.meter.createCounter('events_unsigned_total', {
    description: 'Records handled without a signature, while EVENT_SIGNATURES accepts them.',
  });
  return {
    ...signingBus(o.bus, o.signatures),
    subscribe(s: Subscription) {
      // A record arrives again while its batch fails. It is checked and counted once.
      const checks = new WeakMap<ReceivedRecord, SignatureCheck>();
      const warn = warning(o.logger, s.group);

      function isHandled(record: ReceivedRecord): boolean {
        const known = checks.get(record);
        const check = known ?? judge(record);
        const isAccepted = check === 'unsigned' && o.signatures.acceptsUnsigned;
        if (known === undefined) {
          checks.set(record, check);
          if (isAccepted) unsigned.add(1, { group: s.group });
          else if (check !== 'valid') {
            skipped.add(1, { group: s.group, reason: check });
            warn(record, check);
          }
        }
        return check === 'valid' || isAccepted;
      }

      function judge(record: ReceivedRecord): SignatureCheck {
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

/** Logs the first skipped record, and later the number since the last line. */
function warning(logger: Logger, group: string) {
  const seldom = logSeldom(WARN_EVERY_MS);
  return ({ topic, position }: ReceivedRecord, reason: SignatureCheck): void =>
    seldom((count) =>
      logger.error(
        { group, topic, position, reason, records: count },
        'records skipped: signature not valid',
      ),
    );
}

import type { Meter } from '@opentelemetry/api';
import type { Logger } from '../telemetry/log.ts';
import { logSeldom } from '../telemetry/log-seldom.ts';
import type { EventBus, ReceivedRecord, Subscription } from './event-bus.ts';
import {
  checkSignature,
  type EventSignatures,
  type SignatureCheck,
  signRecord,
} from './event-signature.ts';

/** Thousands of records may be skipped. Minimum time between two log lines that count them. Milliseconds. */
const WARN_EVERY_MS = 5_000;

/**
 * Returns milliseconds since 1970: the start time of the process plus its running time. A change of the system clock
 * then does not make valid signatures expire.
 */
function steadyNow(): number {
  return Math.round(performance.timeOrigin + performance.now());
}

/** Returns a bus that signs published records. */
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
 * Returns a bus that signs published records and delivers only records with a valid signature.
 *
 * The bus skips all other records. It counts them and logs their position in the topic. It does not store them, so that
 * a flood of invalid records cannot fill the database. They stay in the topic until its retention ends.
 */
export function signedBus(o: SignedBusOptions): EventBus {
  const skipped = o.meter.createCounter('events_skipped_total', {
    description: 'Records that were skipped because their signature is missing or invalid.',
  });
  return {
    ...signingBus(o.bus, o.signatures),
    subscribe(s: Subscription) {
      // A record arrives again while its batch fails. Check and count it only once.
      const checks = new WeakMap<ReceivedRecord, SignatureCheck>();
      const warn = warning(o.logger, s.group);

      function isHandled(record: ReceivedRecord): boolean {
        const previous = checks.get(record);
        const check = previous ?? checkOf(record);
        if (previous === undefined) {
          checks.set(record, check);
          if (check !== 'valid') {
            skipped.add(1, { group: s.group, reason: check });
            warn(record, check);
          }
        }
        return check === 'valid';
      }

      function checkOf(record: ReceivedRecord): SignatureCheck {
        const { signatures, rememberMs: maxAgeMs } = o;
        return checkSignature(record, { signatures, now: steadyNow(), maxAgeMs });
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

/**
 * Returns a function that logs the first skipped record, and later the number of skipped records since the last line.
 */
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

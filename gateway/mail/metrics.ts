import type { Meter } from '@opentelemetry/api';
import type { Queryable } from '../../services/platform/postgres/postgres.ts';
import { sharedWithTimeout } from '../../services/platform/postgres/shared-with-timeout.ts';
import { type Ending, oldestOpenSeconds } from './store.ts';

export interface MailMetrics {
  ended(kind: string, as: Ending): void;
  suppressed(kind: string): void;
  stop(): void;
}

/** Creates the metrics of mails. */
export function mailMetrics(meter: Meter, db: Queryable): MailMetrics {
  const ended = meter.createCounter('mails.ended', {
    description: 'Mails to members that ended, by kind and outcome',
  });
  const suppressed = meter.createCounter('mails.suppressed', {
    description: 'Facts without a mail: their subject had its mail of the day, or nobody gets one',
  });
  const age = meter.createObservableGauge('mails_oldest_age_seconds', {
    description: 'Age of the oldest mail that has not ended',
    unit: 's',
  });
  const readAge = sharedWithTimeout(() => oldestOpenSeconds(db));
  const observe = async (result: { observe: (value: number) => void }): Promise<void> => {
    const seconds = await readAge();
    if (seconds !== undefined) result.observe(seconds);
  };
  age.addCallback(observe);
  return {
    ended: (kind, as) => ended.add(1, { kind, outcome: as }),
    suppressed: (kind) => suppressed.add(1, { kind }),
    stop: () => age.removeCallback(observe),
  };
}

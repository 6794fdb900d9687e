import type { Acknowledged } from './publisher.ts';

/** A stored event. */
interface Stored {
  readonly eventId: string;
  readonly trigger: string;
  readonly key: string;
}

/** Compares acknowledged changes with stored events. */
export interface ChangeComparison {
  /** Adds a stored event. A repeated event has no effect. */
  add(event: Stored): void;
  /** Acknowledged changes without an event. */
  missing(acknowledged: readonly Acknowledged[]): string[];
  /** Events of acknowledged returns without an acknowledged change. */
  extra(acknowledged: readonly Acknowledged[]): string[];
}

/** Counts by return and trigger: two labels of one return must have two events. */
export function compareChanges(): ChangeComparison {
  const events = new Map<string, Set<string>>();
  const storedOf = (name: string): number => events.get(name)?.size ?? 0;
  return {
    add({ eventId, trigger, key }) {
      const name = nameOf({ trigger, key });
      events.set(name, (events.get(name) ?? new Set()).add(eventId));
    },
    missing: (acknowledged) =>
      [...counted(acknowledged)].flatMap(([name, count]) =>
        Array.from({ length: Math.max(0, count - storedOf(name)) }, () => name),
      ),
    extra(acknowledged) {
      const counts = counted(acknowledged);
      const keys = new Set(acknowledged.map(({ key }) => key));
      return [...events.keys()].flatMap((name) => {
        const [, key = ''] = name.split(' of ');
        const more = storedOf(name) - (counts.get(name) ?? 0);
        return keys.has(key) && more > 0 ? [`${name}: ${more} more than changes`] : [];
      });
    },
  };
}

function nameOf({ trigger, key }: Pick<Stored, 'trigger' | 'key'>): string {
  return `${trigger} of ${key}`;
}

function counted(acknowledged: readonly Acknowledged[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const one of acknowledged) counts.set(nameOf(one), (counts.get(nameOf(one)) ?? 0) + 1);
  return counts;
}

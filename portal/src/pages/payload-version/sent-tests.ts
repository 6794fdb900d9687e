import { useSyncExternalStore } from 'react';

/** A test event that was sent in a version to a webhook. */
export interface SentTest {
  readonly shopId: string;
  readonly webhookId: string;
  readonly version: string;
  readonly deliveryId: string;
}

/** This browser stores which tests it sent: the log of deliveries is not searched for tests. */
const STORED_AS = 'portal-version-tests';
/** The oldest of more are forgotten. */
const MAX_TESTS = 200;

/** The newest test first. */
let tests: readonly SentTest[] = stored();
const listeners = new Set<() => void>();

/** Remembers a test instead of the former one of the same webhook in the same version. */
export function rememberTest(test: SentTest): void {
  tests = [test, ...tests.filter((one) => !isSame(one, test))].slice(0, MAX_TESTS);
  try {
    localStorage.setItem(STORED_AS, JSON.stringify(tests));
  } catch {
    // A browser without storage keeps them until the page is closed.
  }
  for (const listener of listeners) listener();
}

/** The id of the delivery of the last test; undefined when this browser sent none. */
export function useLastTest(about: Omit<SentTest, 'deliveryId'>): string | undefined {
  const all = useSyncExternalStore(onChange, () => tests);
  return all.find((one) => isSame(one, about))?.deliveryId;
}

function isSame(one: Omit<SentTest, 'deliveryId'>, other: Omit<SentTest, 'deliveryId'>): boolean {
  return (
    one.shopId === other.shopId &&
    one.webhookId === other.webhookId &&
    one.version === other.version
  );
}

function stored(): SentTest[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(STORED_AS) ?? '[]');
    return Array.isArray(found) ? found.filter(isTest) : [];
  } catch {
    return [];
  }
}

function isTest(value: unknown): value is SentTest {
  const fields = ['shopId', 'webhookId', 'version', 'deliveryId'];
  return (
    typeof value === 'object' &&
    value !== null &&
    fields.every((field) => typeof Reflect.get(value, field) === 'string')
  );
}

function onChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

import type { ReactNode } from 'react';
import styles from './bullets.module.css';

/** A list of sentences; with numbers when they are steps. */
export function Bullets({
  items,
  steps,
}: {
  /** Each with a key. */
  readonly items: readonly (readonly [string, ReactNode])[];
  readonly steps?: boolean;
}) {
  const entries = items.map(([key, item]) => <li key={key}>{item}</li>);
  return steps ? (
    <ol className={styles.list}>{entries}</ol>
  ) : (
    <ul className={styles.list}>{entries}</ul>
  );
}

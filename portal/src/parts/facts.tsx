import type { ReactNode } from 'react';
import styles from './facts.module.css';

/** Pairs of a name and a value. Pairs without a value are left out. */
export function Facts({ rows }: { readonly rows: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className={styles.list}>
      {rows
        .filter(
          ([, value]) => value !== undefined && value !== '' && value !== null && value !== false,
        )
        .map(([name, value]) => (
          <div key={name} className={styles.pair}>
            <dt className={styles.name}>{name}</dt>
            <dd className={styles.value}>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

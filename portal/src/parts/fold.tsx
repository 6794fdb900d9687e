import type { ReactNode } from 'react';
import styles from './fold.module.css';

/** A line that opens to what most readers do not need. */
export function Fold(o: {
  readonly title: ReactNode;
  /** Whether it is open at first. */
  readonly open?: boolean;
  /** Called when it was opened or closed. */
  readonly onToggle?: (isOpen: boolean) => void;
  readonly children: ReactNode;
}) {
  return (
    <details open={o.open} onToggle={({ currentTarget }) => o.onToggle?.(currentTarget.open)}>
      <summary className={styles.line}>{o.title}</summary>
      {o.children}
    </details>
  );
}

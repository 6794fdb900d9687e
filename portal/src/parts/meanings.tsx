import { useState } from 'react';
import { lazyPart } from './lazy-part.tsx';
import type { Meaning } from './meaning-list.tsx';
import styles from './meanings.module.css';

const MeaningList = lazyPart(async () => (await import('./meaning-list.tsx')).MeaningList, 3);

/** A line that opens to what some words of the page mean. The texts are loaded when it is first opened. */
export function Meanings({ of }: { readonly of: readonly Meaning[] }) {
  const [opened, setOpened] = useState(false);
  return (
    <details
      className={styles.root}
      onToggle={({ currentTarget }) => setOpened(opened || currentTarget.open)}
    >
      <summary className={styles.line}>What the words on this page mean</summary>
      {opened && <MeaningList of={of} />}
    </details>
  );
}

import { useState } from 'react';
import type { Term } from '../meanings.ts';
import { lazyPart } from './lazy-part.tsx';
import styles from './meanings.module.css';

const MeaningList = lazyPart(async () => (await import('./meaning-list.tsx')).MeaningList, 3);

/** A line that names words, and opens to what they mean. The texts are loaded when it is first opened. */
export function Meanings({ of }: { readonly of: readonly Term[] }) {
  const [opened, setOpened] = useState(false);
  return (
    <details
      className={styles.root}
      onToggle={({ currentTarget }) => setOpened(opened || currentTarget.open)}
    >
      <summary className={styles.line}>
        {of.length === 1 ? 'What this word means' : 'What these words mean'}: {of.join(', ')}
      </summary>
      {opened && <MeaningList of={of} />}
    </details>
  );
}

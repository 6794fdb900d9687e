import { diffLines, withoutEqualParts } from './diff.ts';
import styles from './diff-view.module.css';

const SIGNS = { same: ' ', removed: '−', added: '+' };
const WORDS = {
  same: '',
  removed: 'Only in the old version: ',
  added: 'Only in the new version: ',
};

/** Two payloads as one text: lines that only one version has are marked. */
export function DiffView(o: {
  readonly before: string;
  readonly after: string;
  /** Whether to show the equal lines far from differences, too. */
  readonly whole: boolean;
}) {
  const lines = diffLines(o.before, o.after);
  const shown = o.whole ? lines : withoutEqualParts(lines);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard must be able to scroll it.
    <section className={styles.view} tabIndex={0} aria-label="Differences">
      {shown.map((line, place) =>
        'gap' in line ? (
          // biome-ignore lint/suspicious/noArrayIndexKey: the lines are drawn at once and never move.
          <div key={place} className={styles.gap}>
            {line.gap} equal {line.gap === 1 ? 'line' : 'lines'}
          </div>
        ) : (
          // biome-ignore lint/suspicious/noArrayIndexKey: as above.
          <div key={place} className={styles[line.kind]}>
            <span aria-hidden>{SIGNS[line.kind]} </span>
            <span className="visually-hidden">{WORDS[line.kind]}</span>
            {line.text}
          </div>
        ),
      )}
    </section>
  );
}

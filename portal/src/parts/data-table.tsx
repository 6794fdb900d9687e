import { Paper } from '@mantine/core';
import type { ReactNode } from 'react';
import styles from './data-table.module.css';

export interface Column<T> {
  readonly title: string;
  readonly cell: (row: T) => ReactNode;
  readonly align?: 'end';
  /** Keeps short values such as ids, amounts and days on one line. */
  readonly short?: boolean;
  /** Has room for addresses and e-mail addresses. */
  readonly roomy?: boolean;
}

/** The class for the width that a number of columns needs. */
function widthClass(columns: number, isAlwaysCards = false): string {
  if (columns <= 3 && !isAlwaysCards) return '';
  const isWide = columns > 5 || (columns > 3 && isAlwaysCards);
  return `${styles.cards} ${isWide ? styles.wide : ''}`;
}

/** Explicit roles keep a table a table where its cells are laid out as a grid. */
const ROLES = {
  table: { role: 'table' },
  rowgroup: { role: 'rowgroup' },
  row: { role: 'row' },
  columnheader: { role: 'columnheader' },
  cell: { role: 'cell' },
} as const;

/**
 * A table that becomes a list of cards in a narrow place.
 *
 * With `linked`, the first cell of each row has a link, and the whole row is its target.
 */
export function DataTable<T>(o: {
  readonly caption: string;
  readonly columns: readonly Column<T>[];
  readonly rows: readonly T[];
  readonly rowKey: (row: T) => string;
  readonly linked?: boolean;
  /** Becomes cards already where a table with as many columns does not, because they are wide. */
  readonly cards?: boolean;
}) {
  const tableClass = `${styles.table} ${widthClass(o.columns.length, o.cards)}`;
  const rowClass = o.linked ? `${styles.row} ${styles.link}` : styles.row;
  return (
    <Paper withBorder className={styles.place ?? ''}>
      <table className={tableClass} {...ROLES.table} aria-label={o.caption}>
        <thead className={styles.headers} {...ROLES.rowgroup}>
          <tr {...ROLES.row}>
            {o.columns.map(({ title, align }) => (
              <th
                key={title}
                {...ROLES.columnheader}
                scope="col"
                className={`${styles.head} ${align === 'end' ? styles.end : ''}`}
              >
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody className={styles.body} {...ROLES.rowgroup}>
          {o.rows.map((row) => (
            <tr key={o.rowKey(row)} className={rowClass} {...ROLES.row}>
              {o.columns.map(({ title, cell, align, short, roomy }) => (
                <td
                  key={title}
                  {...ROLES.cell}
                  className={`${styles.cell} ${align === 'end' ? styles.end : ''} ${short ? styles.short : ''} ${roomy ? styles.roomy : ''}`}
                >
                  <span className={styles.label} aria-hidden>
                    {title}
                  </span>
                  <div>{cell(row)}</div>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Paper>
  );
}

/**
 * Returns the row of a statement that always returns exactly one row: an aggregate such as a count, `insert …
 * returning`, or a select without `from`.
 *
 * @throws Error for another number of rows, which is a bug.
 */
export function onlyRow<Row>({ rows }: { readonly rows: readonly Row[] }): Row {
  const [row] = rows;
  if (row === undefined || rows.length > 1) {
    throw new Error(`a statement returned ${rows.length} rows instead of one`);
  }
  return row;
}

/** Maximum size of a page of rows, because an assistant reads the whole page. Tokens of o200k_base. */
export const PAGE_TOKENS_MAX = 8_000;

/**
 * Characters of ASCII per token. Of our usual texts, ids, amounts and times need the most tokens: about one for three
 * characters.
 */
const ASCII_PER_TOKEN = 3;

/**
 * Estimates the number of tokens of a value as JSON. Each UTF-16 unit that is not printable ASCII counts as one token.
 */
function estimatedTokens(value: unknown): number {
  const text = JSON.stringify(value);
  const others = text.replace(/[ -~]/g, '').length;
  return Math.ceil((text.length - others) / ASCII_PER_TOKEN) + others;
}

/** One form of a page of rows: complete, or with fewer fields in each row. */
export interface PageForm<R> {
  readonly rows: readonly R[];
  /** Tells the assistant which fields the rows lack; null for the form that the assistant requested. */
  readonly note: string | null;
}

/** Returns the first form that is not too large, or the last form if all are too large. */
export function firstThatFits<R>(
  requested: PageForm<R>,
  shorter: readonly PageForm<R>[],
): PageForm<R> {
  const forms = [requested, ...shorter];
  const fitting = forms.find(({ rows }) => estimatedTokens(rows) <= PAGE_TOKENS_MAX);
  return fitting ?? shorter.at(-1) ?? requested;
}

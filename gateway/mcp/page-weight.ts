/** Maximum size of a page of rows, because an assistant reads the whole page. Tokens of o200k_base. */
export const PAGE_TOKENS_MAX = 8_000;

/** A tokenizer needs about one token for three characters of our ids, amounts and times, which is its worst usual case. */
const ASCII_PER_TOKEN = 3;

/** Estimates the number of tokens of a value as JSON. Other scripts than Latin count one token for each UTF-16 unit. */
function estimatedTokens(value: unknown): number {
  const text = JSON.stringify(value);
  const others = text.replace(/[ -~]/g, '').length;
  return Math.ceil((text.length - others) / ASCII_PER_TOKEN) + others;
}

/** A page of rows in one form. */
export interface PageForm<R> {
  readonly rows: readonly R[];
  /** Says to the assistant what the rows lack; null for the form that it requested. */
  readonly note: string | null;
}

/** The first form that is not too large; the last one if all are. */
export function firstThatFits<R>(
  requested: PageForm<R>,
  shorter: readonly PageForm<R>[],
): PageForm<R> {
  const forms = [requested, ...shorter];
  const fitting = forms.find(({ rows }) => estimatedTokens(rows) <= PAGE_TOKENS_MAX);
  return fitting ?? shorter.at(-1) ?? requested;
}

interface PagesQuery {
  readonly state: { readonly data?: { readonly pages: readonly unknown[] } | undefined };
}

/**
 * Whether the reader sees no more than the first page. Only then a list is read again by itself: all pages would be read
 * again, and a hundred of them would be over the limit of calls.
 */
const isFirstOnly = ({ state }: PagesQuery): boolean => (state.data?.pages.length ?? 0) <= 1;

/** Options for a query of a list whose pages follow one another: each response has the cursor of the next page. */
export const PAGES = {
  pageParamKey: 'cursor',
  getNextPageParam: ({ nextCursor }: { readonly nextCursor: string }) => nextCursor || undefined,
  refetchOnWindowFocus: isFirstOnly,
} as const;

/** The same for a list that is read again at an interval. Milliseconds. */
export function pagesEvery(ms: number) {
  return { ...PAGES, refetchInterval: (query: PagesQuery) => isFirstOnly(query) && ms };
}

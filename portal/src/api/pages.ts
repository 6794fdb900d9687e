/** Options for a query of a list whose pages follow one another: each response has the cursor of the next page. */
export const PAGES = {
  pageParamKey: 'cursor',
  getNextPageParam: ({ nextCursor }: { readonly nextCursor: string }) => nextCursor || undefined,
} as const;

import { Button, Center, Text } from '@mantine/core';
import { ErrorState } from './states.tsx';

interface Pages {
  readonly hasNextPage: boolean;
  readonly isFetchingNextPage: boolean;
  /** Whether the last try to load the next page failed. */
  readonly isFetchNextPageError: boolean;
  readonly error: unknown;
  fetchNextPage(): unknown;
}

interface MoreProps {
  readonly pages: Pages;
  /** What stands below the last page. */
  readonly shown?: string;
  readonly more?: string;
}

/** Loads the next page of a list, or says that there is none, or why it could not be loaded. */
export function More({ pages, shown, more = 'Show more' }: MoreProps) {
  if (pages.isFetchNextPageError) {
    return <ErrorState error={pages.error} retry={() => void pages.fetchNextPage()} />;
  }
  return (
    <Center mt="md">
      {pages.hasNextPage ? (
        <Button
          variant="default"
          loading={pages.isFetchingNextPage}
          onClick={() => void pages.fetchNextPage()}
        >
          {more}
        </Button>
      ) : (
        <Text size="sm" c="dimmed">
          {shown}
        </Text>
      )}
    </Center>
  );
}

import { Button, Center, Text } from '@mantine/core';

interface Pages {
  readonly hasNextPage: boolean;
  readonly isFetchingNextPage: boolean;
  fetchNextPage(): unknown;
}

/** Loads the next page of a list, or says that there is none. */
export function More({ pages, shown }: { readonly pages: Pages; readonly shown: string }) {
  return (
    <Center mt="md">
      {pages.hasNextPage ? (
        <Button
          variant="default"
          loading={pages.isFetchingNextPage}
          onClick={() => void pages.fetchNextPage()}
        >
          Show more
        </Button>
      ) : (
        <Text size="sm" c="dimmed">
          {shown}
        </Text>
      )}
    </Center>
  );
}

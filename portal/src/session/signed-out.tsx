import { Button, Center, Stack, Text, Title } from '@mantine/core';

export function SignedOut() {
  return (
    <Center component="main" mih="100dvh" p="md">
      <Stack align="center" ta="center" maw={420}>
        <Title order={1}>You are signed out</Title>
        <Text c="dimmed">
          The page where you sign in may still know you. On a computer of other people, sign out
          there, too.
        </Text>
        <Button component="a" href="/portal/sign-in">
          Sign in
        </Button>
      </Stack>
    </Center>
  );
}

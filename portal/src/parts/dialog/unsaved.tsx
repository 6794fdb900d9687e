import { Text } from '@mantine/core';
import { useRouter } from '@tanstack/react-router';
import { useEffect, useState } from 'react';
import { FormModal } from './form-modal.tsx';

/** While there are changes that are not saved: asks before the page is left. */
export function Unsaved({ when }: { readonly when: boolean }) {
  const { history } = useRouter();
  const [answer, setAnswer] = useState<(stay: boolean) => void>();
  // Not `useBlocker`: its code would be a part of what every page loads.
  useEffect(() => {
    if (!when) return;
    return history.block({
      enableBeforeUnload: true,
      blockerFn: async ({ currentLocation, nextLocation }) => {
        if (currentLocation.pathname === nextLocation.pathname) return false;
        const { promise, resolve } = Promise.withResolvers<boolean>();
        setAnswer(() => resolve);
        return promise;
      },
    });
  }, [history, when]);
  if (!answer) return null;
  const say = (stay: boolean) => {
    setAnswer(undefined);
    answer(stay);
  };
  return (
    <FormModal
      title="Leave without saving?"
      submit="Leave"
      keep="Stay"
      danger
      pending={false}
      error={undefined}
      onClose={() => say(true)}
      onSubmit={() => say(false)}
    >
      <Text size="sm">Your changes are on this page only. They are lost when you leave it.</Text>
    </FormModal>
  );
}

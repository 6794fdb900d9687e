import { Group, NativeSelect, Paper, TextInput } from '@mantine/core';
import { type ReactNode, useEffect, useState } from 'react';

/** The controls above a list. */
export function FilterBar({ children }: { readonly children: ReactNode }) {
  return (
    <Paper component="search" mb="md">
      <Group gap="sm" align="flex-end">
        {children}
      </Group>
    </Paper>
  );
}

interface FieldProps {
  readonly label: string;
  readonly value: string | undefined;
  readonly onChange: (value: string) => void;
}

export function SelectFilter(
  o: FieldProps & {
    readonly options: readonly (readonly [string, string])[];
    readonly all: string;
  },
) {
  return (
    <NativeSelect
      label={o.label}
      value={o.value ?? ''}
      onChange={({ currentTarget }) => o.onChange(currentTarget.value)}
      data={[{ value: '', label: o.all }, ...o.options.map(([value, label]) => ({ value, label }))]}
    />
  );
}

export function DateFilter({ type = 'date', ...o }: FieldProps & { readonly type?: string }) {
  return (
    <TextInput
      type={type}
      label={o.label}
      value={o.value ?? ''}
      onChange={({ currentTarget }) => o.onChange(currentTarget.value)}
    />
  );
}

/** Applies the text when the user presses Enter or leaves the field, and pauses before that while the user types. */
export function TextFilter(
  o: FieldProps & { readonly placeholder?: string; readonly width?: number },
) {
  const [text, setText] = useState(o.value ?? '');
  useEffect(() => setText(o.value ?? ''), [o.value]);
  const apply = () => {
    if (text.trim() !== (o.value ?? '')) o.onChange(text.trim());
  };
  return (
    <TextInput
      type="search"
      label={o.label}
      placeholder={o.placeholder}
      value={text}
      w={o.width}
      maw="100%"
      onChange={({ currentTarget }) => setText(currentTarget.value)}
      onBlur={apply}
      onKeyDown={({ key }) => key === 'Enter' && apply()}
    />
  );
}

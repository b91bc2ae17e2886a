// The agent's own to-do list, shown while the run is active.

import type { Todo } from "../state/progress.ts";
import { visible } from "../text/visible.ts";

const SIGNS = { completed: "✓", in_progress: "›", pending: "·" } as const;
const LABELS = { completed: "done", in_progress: "in progress", pending: "to do" } as const;

export function TodoList({ todos }: { todos: readonly Todo[] }) {
  const done = todos.filter((todo) => todo.state === "completed").length;
  return (
    <section class="card todo" data-testid="todo-card" aria-label="To-do list">
      <h2>
        To do <span class="muted">{`${done} of ${todos.length}`}</span>
      </h2>
      <progress max={todos.length} value={done} aria-label="Done" />
      <ul>
        {todos.map((todo, index) => (
          <li key={index} class={todo.state}>
            <span class="sign" aria-label={LABELS[todo.state]} role="img">
              {SIGNS[todo.state]}
            </span>
            {visible(todo.text)}
          </li>
        ))}
      </ul>
    </section>
  );
}

"""The prompts with which Clew itself continues something: an interrupted run, or an answer of the wrong form.

They are turns like any other, but no user said them. `words_of_user` tells them apart, by their text: it is all that
survives an export, a merge and a fork.
"""

from __future__ import annotations

# For an agent whose work was interrupted by a usage limit, a time-out or a lost machine.
CONTINUE = (
    "You were cut off while you worked on the task that you were given last in this conversation. Go on with it where "
    "you stopped: look at what is done already, do not do it again, and finish the rest. Then answer as that task asks."
)
# For a part of a pair. The user's message, and names of changed files, may follow.
CONTINUE_PAIR = (
    "You were cut off before you had finished with the last message. Go on where you stopped: look at what is done "
    "already, do not do it again, and finish the rest. Then answer as that message asks."
)
# For a session whose process died while the agent waited for a person: the answer follows.
PERMISSION_ANSWERED = "The last run was interrupted while it waited for permission for "
QUESTIONS_ANSWERED = "The last run was interrupted while your questions were open. "
# The beginning and the end of a prompt that asks for an answer once more, in the required form.
ORDER_AGAIN = (
    "Your answer does not fit: ",
    " Answer once more, with the one JSON object that the standing instructions ask for and nothing else.",
)
FINDINGS_AGAIN = (
    "Your answer does not fit what was asked for: ",
    "\n\nSend the whole answer again, as one JSON object of the shape described in the standing instructions, with "
    "nothing before or after it.",
)


def words_of_user(prompt: str) -> str:
    """The prompt without what Clew added to continue something; "" if Clew worded all of it.

    An answer to a question of the agent is no prompt of its own: in a run that is not interrupted, it is no turn.
    """
    if prompt.startswith((PERMISSION_ANSWERED, QUESTIONS_ANSWERED)):
        return ""
    if any(prompt.startswith(start) and prompt.endswith(end) for start, end in (ORDER_AGAIN, FINDINGS_AGAIN)):
        return ""
    for text in (CONTINUE, CONTINUE_PAIR):
        if prompt == text or prompt.startswith(f"{text}\n\n"):
            return prompt[len(text) :].lstrip("\n")
    return prompt

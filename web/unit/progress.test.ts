import { expect, test } from "vitest";
import { hasProgress, NO_PROGRESS, partDone, progressOf } from "../src/logic/progress";
import { lastWords } from "../src/logic/traceback";

test.each([
  ["Epoch 3/10, loss: 0.251", { epoch: 3, epochs: 10, loss: 0.251 }],
  ["epoch=2 step=150 loss=1.5e-3 12.5 it/s", { epoch: 2, step: 150, loss: 0.0015, rate: 12.5 }],
  ["{'loss': 2.31, 'learning_rate': 5e-05, 'epoch': 0.64}", { epoch: 0.64, loss: 2.31 }],
  [" 45%|####5     | 450/1000 [00:30<00:37, 14.8it/s, loss=0.9]", { step: 450, steps: 1000, rate: 14.8, loss: 0.9 }],
  ["  1%|          | 1/100 [00:02<03:18,  2.00s/it]", { step: 1, steps: 100, rate: 0.5 }],
  ["Epoch: [1] step 20 of 400 train_loss: 3", { epoch: 1, step: 20, steps: 400, loss: 3 }],
  ["iteration 9: loss nan", { step: 9, loss: Number.NaN }],
  ["steps_per_second: 7.5", { rate: 7.5 }],
])("%s", (line, expected) => {
  expect(progressOf(line)).toEqual({ ...NO_PROGRESS, ...expected });
});

test("the newest value of each kind is kept, and other lines say nothing", () => {
  const text = "loading data\nEpoch 1/4 loss=2\rEpoch 2/4 loss=1\nsaved to disk\nlossy compression 3";
  expect(progressOf(text)).toEqual({ ...NO_PROGRESS, epoch: 2, epochs: 4, loss: 1 });
  expect(partDone(progressOf(text))).toBe(0.5);
  expect(hasProgress(progressOf("hello\nworld 3/4"))).toBe(false);
});

test("the last words are the end of the last traceback", () => {
  const text = [
    "Traceback (most recent call last):",
    '  File "a.py", line 1, in <module>',
    "ValueError: first",
    "During handling of the above exception, another exception occurred:",
    "Traceback (most recent call last):",
    '  File "a.py", line 3, in <module>',
    "    train()",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "cleaning up",
  ].join("\n");
  expect(lastWords(text)).toBe("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB");
  expect(lastWords("step 1\nsh: 1: trian: not found\n")).toBe("sh: 1: trian: not found");
  expect(lastWords("all is well\nerrors: 0\n")).toBeNull();
});

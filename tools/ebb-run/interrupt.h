// Ctrl-C. Before the first step it ends the program at once: there is nothing to lose. From then on
// it is noted for the run to look at, so that no step stops halfway through its updates; a second
// one ends the program. A shell that had the signal ignored (nohup) has it ignored.
#pragma once

namespace ebb::tool {

inline constexpr int kInterruptedStatus = 130;  // 128 + SIGINT, as shells have it

void watch_for_interrupt();
void note_interrupts_from_now_on();
bool was_interrupted();

}  // namespace ebb::tool

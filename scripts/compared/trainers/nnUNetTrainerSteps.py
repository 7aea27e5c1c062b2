"""nnU-Net's trainer with STEPS steps and a seed, for docs/results/nnunet-pretrained.md. nnU-Net finds it through nnUNet_extTrainer.

Everything else is nnU-Net's own, but for:

- An epoch has 10 steps, and there are STEPS / 10; the polynomial of the learning rate ends with them. There is no validation: fold
  "all" holds nothing out, and the last checkpoint is taken.
- SEED starts all random numbers, so that a run with an encoder draws the patches and the augmentation of the run without it.
- No mirroring from left to right, neither in training nor in prediction: two structures have a side.
"""
import os
import random
import sys
import time

import numpy as np
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from nnUNetTrainerHour import nnUNetTrainerHour  # noqa: E402


class nnUNetTrainerSteps(nnUNetTrainerHour):
    def __init__(self, plans, configuration, fold, dataset_json, device):
        seed = int(os.environ.get("SEED", "1"))
        for start in (random.seed, np.random.seed, torch.manual_seed):
            start(seed)
        super().__init__(plans, configuration, fold, dataset_json, device)
        self.num_epochs = int(os.environ.get("STEPS", "1000")) // self.num_iterations_per_epoch

    def run_training(self):
        self.on_train_start()
        while self.current_epoch < self.num_epochs:
            begun = time.time()
            self.on_train_epoch_start()
            self.on_train_epoch_end([self.train_step(next(self.dataloader_train))
                                     for _ in range(self.num_iterations_per_epoch)])
            self.current_epoch += 1
            self.print_to_log_file(f"epoch {self.current_epoch} of {self.num_epochs}, "
                                   f"loss {self.logger.get_value('train_losses', step=-1):.4f}, "
                                   f"{(time.time() - begun) / self.num_iterations_per_epoch:.3f} s a step")
        self.on_train_end()

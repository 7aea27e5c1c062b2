"""nnU-Net's trainer with an end by the clock, for docs/compared.md. nnU-Net finds it through nnUNet_extTrainer.

HOUR_ENDS is the time (seconds since 1970) at which training has to be over. Everything else is nnU-Net's own, but for:

- The learning rate follows nnU-Net's polynomial to its end: the number of epochs is found anew after each epoch, from the time
  that is left and the mean time of the epochs so far.
- An epoch has 10 steps. There is no validation: fold "all" holds nothing out, and the last checkpoint is taken.
- No mirroring from left to right, neither in training nor in prediction, where structures have a side by their names.
"""
import os
import time

import SimpleITK as sitk

from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

RESERVE = 15  # seconds: the last checkpoint, and the end of the process


def left_right_axis(trainer):
    """The axis of nnU-Net's arrays that runs from left to right, as the first training scan lies."""
    folder = os.path.join(os.environ["nnUNet_raw"], trainer.plans_manager.dataset_name, "imagesTr")
    reader = sitk.ImageFileReader()
    reader.SetFileName(os.path.join(folder, sorted(os.listdir(folder))[0]))
    reader.ReadImageInformation()
    first_row = reader.GetDirection()[:3]  # how much each index adds to the coordinate from left to right
    index = max(range(3), key=lambda i: abs(first_row[i]))
    return list(trainer.plans_manager.transpose_forward).index(2 - index)  # arrays have the indices in reverse


class nnUNetTrainerHour(nnUNetTrainer):
    def __init__(self, plans, configuration, fold, dataset_json, device):
        super().__init__(plans, configuration, fold, dataset_json, device)
        self.ends = float(os.environ.get("HOUR_ENDS", "0")) - RESERVE
        self.num_iterations_per_epoch = 10
        self.num_epochs = 10**6  # until the first epoch has been timed

    def configure_rotation_dummyDA_mirroring_and_inital_patch_size(self):
        rotation, dummy_2d, initial_patch, _ = super().configure_rotation_dummyDA_mirroring_and_inital_patch_size()
        axes = tuple(range(3))
        if any(name.startswith(("left", "right")) for name in self.dataset_json["labels"]):
            axes = tuple(axis for axis in axes if axis != left_right_axis(self))
        self.inference_allowed_mirroring_axes = axes
        return rotation, dummy_2d, initial_patch, axes

    def plot_network_architecture(self):
        pass

    def run_training(self):
        self.on_train_start()
        begun = time.time()
        while self.current_epoch < self.num_epochs:
            self.on_train_epoch_start()
            self.on_train_epoch_end([self.train_step(next(self.dataloader_train))
                                     for _ in range(self.num_iterations_per_epoch)])
            self.current_epoch += 1
            left, mean = self.ends - time.time(), (time.time() - begun) / self.current_epoch
            self.num_epochs = self.current_epoch + max(0, int(left / mean))
            self.lr_scheduler.max_steps = self.num_epochs
            loss = self.logger.get_value("train_losses", step=-1)
            self.print_to_log_file(f"loss {loss:.4f}, {mean / self.num_iterations_per_epoch:.3f} s a step, "
                                   f"{self.num_epochs} epochs fit into the time")
        self.on_train_end()

    def perform_actual_validation(self, save_probabilities=False):
        pass

"""temporarily empty"""
